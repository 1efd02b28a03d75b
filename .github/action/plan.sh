#!/usr/bin/env bash
# Writes what the change invalidates and costs, for all recipes, into one file and the job summary.
set -euo pipefail
. "$GITHUB_ACTION_PATH/.github/action/recipes.sh"

arguments=()
if [ -n "${AGAINST//0/}" ]; then # a new branch has no state before the push: GitHub sends zeros
    if ! git rev-parse --verify --quiet --end-of-options "$AGAINST^{commit}" >/dev/null; then
        git fetch --quiet --depth=1 origin -- "$AGAINST" || {
            echo "::error title=posttrain::the revision $AGAINST cannot be fetched; see the message of git above"
            exit 1
        }
        AGAINST=$(git rev-parse FETCH_HEAD)
    fi
    arguments=(--against "$AGAINST")
fi

markdown=$RUNNER_TEMP/posttrain-plan.md
: >"$markdown"
status=0
for recipe in "${recipes[@]}"; do
    "$RECIPE" plan --format markdown --home "${RECIPE_HOME:-$RUNNER_TEMP/posttrain-home}" ${arguments[@]+"${arguments[@]}"} -- "$recipe" \
        >>"$markdown" || status=$?
    echo >>"$markdown"
done
cat "$markdown" >>"$GITHUB_STEP_SUMMARY"
echo "markdown=$markdown" >>"$GITHUB_OUTPUT"
exit "$status"
