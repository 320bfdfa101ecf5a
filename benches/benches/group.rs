//! Shared by the benches: a group of contenders, and a configuration that keeps a run short.

use std::fmt::Display;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion};
use wireseal_benches::Contender;

/// Half a second for each benchmark. Criterion's options change it, such as `--measurement-time 5`.
pub(crate) fn configuration() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500))
        .sample_size(40)
}

/// Times each contender under its name and a parameter. A numeric parameter is the x axis of criterion's plots.
pub(crate) fn bench(
    group: &mut BenchmarkGroup<'_, WallTime>,
    parameter: impl Display,
    contenders: impl IntoIterator<Item = Contender>,
) {
    for mut contender in contenders {
        group.bench_function(BenchmarkId::new(contender.name, &parameter), |bencher| {
            bencher.iter_custom(|runs| contender.time(runs));
        });
    }
}
