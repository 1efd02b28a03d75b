"""Lists the files of a streamed dataset, as its product."""

from posttrain.runtime.plan_params import read_extension_params
from posttrain.runtime.sources.hub import Hub
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.streams.hub_files import list_files
from posttrain.runtime.streams.row_stream import RowStream, write_stream
from posttrain.spec.step_params.data_params import DataStepParams


def list_stream(context: StepContext[DataStepParams], window_rows: int) -> None:
    source = context.params.source
    assert source is not None, "a streamed dataset has a source"
    params = read_extension_params(Hub, source.params)
    found = list_files(params.name, params.config, params.split, params.revision)
    stream = RowStream(
        repository=params.name,
        commit=found.commit,
        reader=found.reader,
        files=tuple(found.files),
        columns=params.columns,
        operations=context.params.operations,
        window_rows=window_rows,
    )
    write_stream(stream, context.out)
    context.facts["stream.files"] = len(found.files)
    context.facts["stream.bytes"] = sum(file.size for file in found.files)
