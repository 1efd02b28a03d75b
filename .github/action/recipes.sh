# Sourced: reads the input `recipes` into the array `recipes`.
recipes=()
while IFS= read -r line; do
    line=${line#"${line%%[![:space:]]*}"} line=${line%"${line##*[![:space:]]}"}
    [ -z "$line" ] || recipes+=("$line")
done <<<"$RECIPES"
[ ${#recipes[@]} -gt 0 ] || {
    echo "::error title=posttrain::the input recipes is empty; name a recipe on each line"
    exit 1
}
