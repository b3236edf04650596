#!/bin/bash
# completion.sh FOLDER: the completions are valid in each shell that is here, and bash's gives the right
# words with a bstune that lists two presets and a run.
folder=$1
bad=0
for check in "bash -n $folder/bstune" "zsh -n $folder/_bstune" "fish -n $folder/bstune.fish"; do
    if command -v "${check%% *}" >/dev/null && ! $check; then
        echo "failed: $check"
        bad=1
    fi
done

bstune() {
    case $* in
    'preset list') printf '%s\n' 'quickstart   Quickstart  x' 'resnet50-256 ResNet y' ;;
    list) echo 'night-3 training' ;;
    esac
}
compopt() { :; }
# shellcheck disable=SC1091
. "$folder/bstune"

# expect WORDS TYPED…: the last one is being typed.
expect() {
    want=$1
    shift
    COMP_WORDS=(bstune "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    _bstune
    if [ "${COMPREPLY[*]}" != "$want" ]; then
        echo "bstune $*: got '${COMPREPLY[*]}', expected '$want'"
        bad=1
    fi
}
cd /
expect 'run' ru
expect 'status stop' st
expect '--help --headless' run --he
expect 'quickstart' run qui
expect 'model.name=' run x --set model.na
expect 'constant cosine' run x --set lr_scheduler = co
expect 'true' run x --set shuffle = t
expect 'none linear sqrt sqrt-accumulate' run x --set lr_scaling =
expect 'never' run x --color n
expect 'never' run x --color = n
expect 'night-3' attach n
expect 'night-3' ctl n
expect 'warmup weight-decay' ctl night-3 w
expect 'resnet50-256' ctl preset res
expect 'show' preset sh
expect 'quickstart' preset show qu

# fish_expect WORDS LINE
fish_expect() {
    got=$(fish --no-config -c "function bstune; end; source $folder/bstune.fish; complete -C '$2'" |
        cut -f 1 | tr '\n' ' ')
    if [ "$got" != "$1 " ]; then
        echo "fish, $2: got '$got', expected '$1'"
        bad=1
    fi
}
if command -v fish >/dev/null; then
    fish_expect 'run' 'bstune ru'
    fish_expect '--headless' 'bstune run --hea'
    fish_expect 'shuffle=false shuffle=true' 'bstune run x --set shuf'
    fish_expect 'always auto never' 'bstune attach --color '
    fish_expect 'warmup weight-decay' 'bstune ctl w'
fi
exit $bad
