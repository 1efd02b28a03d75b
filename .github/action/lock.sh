#!/usr/bin/env bash
# Checks the lock files of the recipes that have one.
set -euo pipefail
. "$GITHUB_ACTION_PATH/.github/action/recipes.sh"

locked=()
for recipe in "${recipes[@]}"; do
    [ ! -d "$recipe" ] || recipe=${recipe%/}/recipe.yaml
    [ ! -f "${recipe%.*}.lock" ] || locked+=("$recipe")
done
[ ${#locked[@]} -eq 0 ] || "$RECIPE" lock --check -- "${locked[@]}"
