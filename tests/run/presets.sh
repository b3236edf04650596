#!/bin/sh
# presets.sh BSTUNE: every shipped preset trains on generated data for an update or two. Width, image or length, and
# batch are shrunk; devices, accumulation, schedule and rate groups are the preset's own.
set -u
bstune=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0

# one_update PRESET SPLIT [SET…]: SPLIT is what the metrics must say of the batch.
one_update() {
    name=$1 split=$2
    shift 2
    if ! "$bstune" run "$name" --headless --run-dir "$dir/$name" "$@" >"$dir/out" 2>&1; then
        echo "$name: did not train"
        tail -n 5 "$dir/out"
        bad=1
        return
    fi
    line=$(grep '"type":"update"' "$dir/$name/metrics.jsonl" | head -n 1)
    case $line in
    *"$split"*) ;;
    *)
        echo "$name: expected $split in: $line"
        bad=1
        ;;
    esac
    case $line in
    *'"loss":null'* | *'"nonfinite"'* | '')
        echo "$name: no finite loss in: $line"
        bad=1
        ;;
    esac
}

# train PRESET BATCH SPLIT [SET…]
train() {
    name=$1 batch=$2 split=$3
    shift 3
    one_update "$name" "$split" --set data.format=shapes --set data.path= --set data.image_size=32 \
        --set data.train_count=96 --set data.eval_count=16 --set model.width=8 --set model.classes=10 \
        --set model.in_channels=3 --set global_batch_size="$batch" --set warmup_epochs=0 \
        --set max_steps=1 "$@"
}

# train_sequences PRESET FORMAT LENGTH BATCH SPLIT [SET…]
train_sequences() {
    name=$1 format=$2 length=$3 batch=$4 split=$5
    shift 5
    one_update "$name" "$split" --set data.format="$format" --set data.path= --set data.length="$length" \
        --set data.train_count=96 --set data.eval_count=16 --set model.width=24 --set model.heads=2 \
        --set model.layers=2 --set global_batch_size="$batch" --set warmup_steps=1 --set max_steps=2 "$@"
}

one='"micro_batch_size":8,"gradient_accumulation_steps":1'
train quickstart 8 "\"global_batch_size\":8,$one"
train rtx3090-128 8 "\"global_batch_size\":8,$one"
train a100x4-ddp-2048 32 "\"global_batch_size\":32,$one"
train accumulate8-1024 64 '"global_batch_size":64,"micro_batch_size":8,"gradient_accumulation_steps":8' \
    --set micro_batch_size=8
train resnet50-256 8 "\"global_batch_size\":8,$one"
train resnet50-384 12 '"global_batch_size":12,"micro_batch_size":12,"gradient_accumulation_steps":1'
train resnet50-1024-layerwise 8 "\"global_batch_size\":8,$one"

# Tokens are counted without padding: rows of 7 to 15 digits and two marks, 24 of both sides in the mean.
train_sequences transformer-noam reverse 16 192 "\"global_batch_size\":8,$one"
train_sequences gpt2-124m random 24 192 "\"global_batch_size\":8,$one" --set model.classes=99
train_sequences bert-8192 random 24 64 '"global_batch_size":64,"micro_batch_size":32,"gradient_accumulation_steps":2' \
    --set model.classes=99
train_sequences quickstart-text random 24 192 "\"global_batch_size\":8,$one" --set model.classes=256
train_sequences quickstart-addition addition 12 8 "\"global_batch_size\":8,$one"

# As they are, where their data are generated or every system has them; and what is planned where they are
# not here.
for name in quickstart-text quickstart-addition; do
    if [ "$name" = quickstart-text ] && [ ! -d /usr/share/common-licenses ]; then
        echo "no /usr/share/common-licenses: quickstart-text is not run as it is"
        continue
    fi
    "$bstune" run "$name" --headless --run-dir "$dir/own" --set max_steps=2 --set eval_interval=never >"$dir/out" 2>&1 ||
        { echo "$name: as it is, it did not train"; tail -n 5 "$dir/out"; bad=1; }
    rm -rf "$dir/own"
done
for name in transformer-noam gpt2-124m bert-8192; do
    "$bstune" mem "$name" --batch 8 --set data.path="$dir/none" --recompute none >"$dir/out" 2>&1
    code=$?
    if [ $code != 0 ] || ! grep -q 'the data are not here' "$dir/out" || ! grep -q '^ *8 ' "$dir/out"; then
        echo "mem $name: exit $code, $(cat "$dir/out")"
        bad=1
    fi
done

# What the reference left is what fine-tuning starts from, with five classes instead of ten.
weights=$dir/resnet50-256/weights.safetensors
train finetune-last 8 "\"global_batch_size\":8,$one" --init "$weights" --set model.classes=5
train finetune-tail 8 "\"global_batch_size\":8,$one" --init "$weights" --set model.classes=5
"$bstune" run finetune-last --headless --run-dir "$dir/none" >"$dir/out" 2>&1
code=$?
want='finetune-last: error: init: this preset starts from pretrained weights; give them with --init FILE'
if [ $code != 2 ] || [ "$(cat "$dir/out")" != "$want" ]; then
    echo "finetune-last without --init: exit $code, $(cat "$dir/out")"
    bad=1
fi

"$bstune" run quickstart --headless --run-dir "$dir/grey" --set data.format=shapes \
    --set data.mean='[0.1, 0.2, 0.3]' >"$dir/out" 2>&1
code=$?
if [ $code = 0 ] || ! grep -q 'data.mean: 3 numbers, but the images have 1 channel$' "$dir/out"; then
    echo "three means for grey images: exit $code, $(cat "$dir/out")"
    bad=1
fi

# All of them, so that a new one is not forgotten here.
n=$(find "$(dirname "$0")/../../presets" -name '*.yaml' | wc -l)
if [ "$(find "$dir" -maxdepth 2 -name weights.safetensors | wc -l)" != "$n" ]; then
    echo "there are $n presets; $(find "$dir" -maxdepth 2 -name weights.safetensors | wc -l) were trained"
    bad=1
fi
exit $bad
