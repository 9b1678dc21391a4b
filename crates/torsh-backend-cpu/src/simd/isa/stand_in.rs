//! How tests choose the model.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use torsh_core::machine::{self, Level, Machine};

use super::{amx, bf16, model};
use crate::testing::skipped;

thread_local! {
    static UNITS: Cell<usize> = const { Cell::new(0) };
}
static BY_MODEL: AtomicUsize = AtomicUsize::new(0);

/// The processor in use. While a [`StandIn`] lives on this thread, it has AMX and AVX512-BF16.
pub(crate) fn machine() -> &'static Machine {
    static WITH_UNITS: OnceLock<Machine> = OnceLock::new();
    let found = machine::machine();
    match UNITS.get() {
        0 => found,
        _ => WITH_UNITS.get_or_init(|| Machine {
            bf16_dot: true,
            bf16_tiles: true,
            ..found.clone()
        }),
    }
}

/// Whether the model executes AVX512-BF16's instructions. This holds for all threads, since the results are the same.
pub(crate) fn by_model() -> bool {
    BY_MODEL.load(Ordering::Relaxed) > 0 || !bf16::is_present()
}

/// While it lives, kernels that this thread calls choose algorithms as on a processor with AMX and AVX512-BF16. Choices
/// made on the pool's workers are still the real processor's, so parts of a batch may be computed by other algorithms.
pub(crate) struct StandIn {
    products: usize,
    by_model: bool,
    // Bound to this thread.
    _here: PhantomData<*const ()>,
}

/// Makes AMX and AVX512-BF16 available to this thread, by the processor or else by the model. `None`, reported as
/// skipped, without AVX-512, because the code around these instructions is written in it.
pub(crate) fn stand_in() -> Option<StandIn> {
    if machine::machine().level < Level::Avx512 {
        skipped("needs AVX-512, which the code around AMX and AVX512-BF16 is written in");
        return None;
    }
    UNITS.set(UNITS.get() + 1);
    Some(StandIn {
        products: model::unit::products(),
        by_model: false,
        _here: PhantomData,
    })
}

impl StandIn {
    /// Has the model execute AVX512-BF16 even where the processor has it.
    pub(crate) fn by_model(mut self) -> StandIn {
        if !self.by_model {
            BY_MODEL.fetch_add(1, Ordering::Relaxed);
        }
        self.by_model = true;
        self
    }

    /// Fails unless tiles were multiplied since this was made.
    pub(crate) fn assert_used(&self) {
        let real = amx::is_present();
        assert!(
            real || model::unit::products() > self.products,
            "AMX took no part"
        );
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        UNITS.set(UNITS.get() - 1);
        if self.by_model {
            BY_MODEL.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Runs a test as the processor is, and then as one with AMX, which is to take part.
pub(crate) fn with_and_without(test: impl Fn()) {
    test();
    if let Some(unit) = stand_in() {
        test();
        unit.assert_used();
    }
}
