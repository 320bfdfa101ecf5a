#!/bin/bash -eu
# Builds every fuzz target into $OUT, each with its committed inputs. OSS-Fuzz sets SRC and OUT.

cd "$SRC/wireseal/fuzz"
# Optimised, with debug assertions: an overflow is a finding.
cargo +nightly fuzz build --release --debug-assertions
triple=$(rustc -vV | sed -n 's/^host: //p')
for target in $(cargo +nightly fuzz list); do
    cp "target/$triple/release/$target" "$OUT/"
    if [ -d "corpus/$target" ]; then
        (cd "corpus/$target" && zip --quiet --recurse-paths "$OUT/${target}_seed_corpus.zip" .)
    fi
done
