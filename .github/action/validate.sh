#!/usr/bin/env bash
# Checks the recipes; errors become annotations at their lines.
set -euo pipefail
. "$GITHUB_ACTION_PATH/.github/action/recipes.sh"

"$RECIPE" validate --format github -- "${recipes[@]}"
