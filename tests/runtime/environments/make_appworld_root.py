"""Creates an AppWorld root with one small task: `PYTHON make_appworld_root.py ROOT`.

AppWorld's own tasks are data that it downloads. Its apps need none: here their databases are empty but
for one person, who asks for a note. Runs in AppWorld's interpreter, and needs nothing of ours.
"""

import json
import os
import shutil
import sys
from pathlib import Path

PERSON = {
    "first_name": "Ida",
    "last_name": "Berg",
    "email": "ida.berg@example.com",
    "phone_number": "5550100200",
    "birthday": "1990-04-02",
}
INSTRUCTION = "Write a simple note titled Shopping that says milk, and tell me how long its text is."
COUNTS = {"num_apps": 1, "num_apis": 2, "num_api_calls": 2, "num_solution_code_lines": 2}
TESTS = ("the answer is the length", "there is one note more", "it says milk")
EVALUATION = f'''
def evaluate(test, public_data, private_data, main_user, models, ground_truth_answer):
    with test("{TESTS[0]}"):
        test.case(float(models.end.supervisor.Task.find_all()[0].answer), "==", float(ground_truth_answer))
    notes = models.end.simple_note.Note.find_all()
    with test("{TESTS[1]}"):
        test.case(len(notes), "==", 1)
    with test("{TESTS[2]}"):
        test.case([note.content for note in notes], "==", ["milk"])
'''


def main(root: Path) -> None:
    os.environ["APPWORLD_ROOT"] = str(root)
    task = root / "data" / "tasks" / "note_1"
    shutil.rmtree(root / "data", ignore_errors=True)
    databases(task / "dbs")
    documentation(root / "data" / "api_docs" / "standard")
    shutil.copytree(task / "dbs", root / "data" / "base_dbs")
    supervisor = {
        **PERSON,
        "account_passwords": {"simple_note": "sesame"},
        "addresses": {},
        "payment_cards": {},
    }
    specs = {"db_version": version(), "instruction": INSTRUCTION, "datetime": "2023-05-18T12:00:00"}
    write(task / "specs.json", {**specs, "supervisor": supervisor})
    truth = task / "ground_truth"
    for name, value in (
        ("metadata", {"mode": "minimal", "difficulty": 1, **COUNTS}),
        ("public_data", {}),
        ("private_data", {}),
        ("answer", 4),
        ("test_data", [{"requirement": name, "label": "no_op_fail"} for name in TESTS]),
    ):
        write(truth / f"{name}.json", value)
    (truth / "evaluation.py").write_text(EVALUATION)


def databases(folder: Path) -> None:
    from appworld.apps import get_all_apps
    from appworld.collections.models import ModelCollection

    folder.mkdir(parents=True)
    models = ModelCollection.load(
        to_db_home_path=str(folder),
        from_db_home_path=str(folder),
        load_apps=[],
        force_empty_apps=[*get_all_apps(skip_admin=True), "admin"],
        create_db=True,
        skip_mandatory_apps=True,
    )
    models.admin.MainUser(**PERSON).save()
    person = models.supervisor.Supervisor(**PERSON)
    person.save()
    models.supervisor.AccountPassword(
        supervisor_id=person.id, account_name="simple_note", password="sesame"
    ).save()
    models.supervisor.Task(supervisor_id=person.id, instruction=INSTRUCTION).save()
    user = {key: PERSON[key] for key in ("first_name", "last_name", "email")}
    models.simple_note.User(**user, password="sesame", verified=True).save()
    models.close()


def documentation(folder: Path) -> None:
    """The API documentation of the apps, which AppWorld reads from its data."""
    from appworld.apps import get_all_apps
    from appworld.collections.api_docs import ApiDocCollection

    docs = ApiDocCollection.build(load_apps=tuple(get_all_apps(skip_admin=True)))
    for app, apis in docs.items():
        write(folder / f"{app}.json", {name: {**api, "canary_string": ""} for name, api in apis.items()})


def version() -> str:
    from appworld.common.constants import DB_VERSION

    return DB_VERSION


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
