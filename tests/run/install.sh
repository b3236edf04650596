#!/bin/sh
# install.sh BUILD CMAKE VERSION: what is installed works from where it lies, with nothing of the build and no
# environment; and cpack makes a package with the same files.
set -u
build=$1 cmake=$2 version=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0

fail() {
    echo "$*"
    bad=1
}

DESTDIR=$dir/root "$cmake" --install "$build" --prefix /usr >"$dir/out" 2>&1 || {
    cat "$dir/out"
    exit 1
}
usr=$dir/root/usr
clean() {
    (cd "$dir" && env -i PATH=/usr/bin:/bin "$@")
}
said=$(clean "$usr/bin/bstune" --version)
[ "$said" = "bstune $version" ] || fail "--version said '$said'"
n=$(clean "$usr/bin/bstune" preset list | wc -l)
set -- "$(dirname "$0")"/../../presets/*.yaml
[ "$n" = $# ] || fail "preset list has $n lines, $# are shipped"
said=$(clean "$usr/bin/bstune" preset list --json)
case $said in
*"$usr/share/bstune/presets/quickstart.yaml"*) ;;
*) fail "presets come from elsewhere: $said" ;;
esac
clean "$usr/bin/bstune" preset check >"$dir/out" 2>&1 || fail "$(cat "$dir/out")"
clean "$usr/bin/bstune" run quickstart --headless --set data.format=shapes --set data.train_count=64 \
    --set data.eval_count=16 --set max_steps=2 --set warmup_ratio=0.1 --run-dir "$dir/r" >"$dir/out" 2>&1 ||
    fail "$(cat "$dir/out")"
[ "$(grep -c '"type":"update"' "$dir/r/metrics.jsonl")" = 2 ] || fail 'no two updates'
for page in man1/bstune.1 man5/bstune-preset.5 man7/bstune-diagnostics.7; do
    [ -s "$usr/share/man/$page" ] || fail "$page is missing"
done
for file in bash-completion/completions/bstune zsh/vendor-completions/_bstune \
    fish/vendor_completions.d/bstune.fish bstune/preset.schema.json; do
    [ -s "$usr/share/$file" ] || fail "$file is missing"
done
if command -v dpkg-deb >/dev/null; then
    cpack=$(dirname "$cmake")/cpack
    (cd "$build" && "$cpack" -G DEB -B "$dir/package") >"$dir/out" 2>&1 || fail "$(cat "$dir/out")"
    dpkg-deb --fsys-tarfile "$dir"/package/*.deb | tar -t | grep -v '/$' | sed 's/^\.//' | sort >"$dir/in-deb"
    (cd "$dir/root" && find usr -type f) | sed 's,^,/,' | sort >"$dir/in-root"
    cmp "$dir/in-deb" "$dir/in-root" || fail 'the package has other files than the installation'
fi
exit $bad
