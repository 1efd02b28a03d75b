#!/usr/bin/env bash
# Names the `recipe` command to use; installs this release in an environment of its own if none is given.
set -euo pipefail

if [ -n "$RECIPE_COMMAND" ]; then
    command -v "$RECIPE_COMMAND" >/dev/null || {
        echo "::error title=posttrain::recipe-command: there is no program '$RECIPE_COMMAND'; install it in an earlier step"
        exit 1
    }
    echo "recipe=$RECIPE_COMMAND" >>"$GITHUB_OUTPUT"
    exit
fi

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "::error title=posttrain::posttrain needs Python 3.11 or newer; run actions/setup-python before this action"
    exit 1
}
folder=$RUNNER_TEMP/posttrain
python3 -m venv "$folder"
# The locks have a hash for every package, so that the job runs exactly what the release was tested with.
for lock in tools base; do
    "$folder/bin/python" -m pip install --quiet --require-hashes -r "$GITHUB_ACTION_PATH/requirements/$lock.txt"
done
"$folder/bin/python" -m pip install --quiet --no-deps --no-build-isolation "$GITHUB_ACTION_PATH"
echo "recipe=$folder/bin/recipe" >>"$GITHUB_OUTPUT"
