//! What the tests of the kernels share.

mod skipped;

use torsh_core::machine::Machine;
use torsh_core::{Attributes, DType, Kernel, KernelArgs, Result, View};

pub(crate) use skipped::skipped;

/// A test of `#[torsh_macros::unit_test]`.
pub struct UnitTest {
    name: &'static str,
    run: fn(),
}

inventory::collect!(UnitTest);

impl UnitTest {
    pub(crate) const fn new(name: &'static str, run: fn()) -> UnitTest {
        UnitTest { name, run }
    }

    /// The path of the function, without the crate.
    pub fn name(&self) -> &'static str {
        self.name
            .split_once("::")
            .map_or(self.name, |(_, name)| name)
    }

    /// Runs it; a failure panics.
    pub fn run(&self) {
        (self.run)();
    }
}

/// All unit tests of the crate.
pub fn unit_tests() -> impl Iterator<Item = &'static UnitTest> {
    inventory::iter::<UnitTest>.into_iter()
}

/// What a test returns.
pub(crate) trait Outcome {
    fn expect_pass(self);
}

impl Outcome for () {
    fn expect_pass(self) {}
}

impl Outcome for Result<()> {
    fn expect_pass(self) {
        self.expect("the test passes");
    }
}

/// Runs a kernel on views of a test's buffers, which must be as the kernel asks.
pub(crate) fn run<'a>(
    kernel: Kernel,
    compute: DType,
    outputs: &'a [View<'a>],
    inputs: &'a [View<'a>],
    attrs: &dyn Attributes,
) -> Result<()> {
    let f = crate::kernel(kernel).expect("the kernel is in the table");
    // SAFETY: the caller's views are of buffers that outlive the call, of the kernel's shapes.
    f(&unsafe { KernelArgs::new(kernel, compute, outputs, inputs, attrs) })
}

/// The processor in use, which the choices of algorithms are made for.
pub(crate) fn machine() -> &'static Machine {
    #[cfg(target_arch = "x86_64")]
    return crate::simd::isa::machine();
    #[cfg(not(target_arch = "x86_64"))]
    torsh_core::machine::machine()
}

/// Whether the processor has AVX-512; reported as skipped where it does not, or `TORSH_SIMD` leaves it out.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_avx512() -> bool {
    let there = crate::simd::Level::Avx512.is_available();
    if !there {
        skipped("needs AVX-512");
    }
    there
}

/// In place of running a test with and without a unit that other processors never have.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn once(test: impl Fn()) {
    test();
}
