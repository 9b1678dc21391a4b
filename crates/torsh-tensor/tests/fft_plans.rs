//! The cache of transforms' plans, in a process where nothing else allocates.

use torsh_core::alloc;
use torsh_tensor::fft::{self, PlanCacheStats, clear_plan_cache, plan_cache_stats};
use torsh_tensor::{DType, Device, Result, Tensor};

/// Transforms lines of every size, and tells what the cache and the allocator hold then.
fn transforms(sizes: std::ops::Range<usize>) -> Result<(PlanCacheStats, usize)> {
    for n in sizes {
        let x = Tensor::ones([n], DType::C64, Device::Cpu)?;
        let sum = fft::fft(&x)?.real()?.select(0, 0)?.item::<f32>()?;
        assert!((sum - n as f32).abs() <= 1e-5 * n as f32, "{sum} for {n}");
    }
    Ok((plan_cache_stats(), alloc::stats().allocated_bytes))
}

#[test]
fn plans_are_bounded_and_can_be_dropped() -> Result<()> {
    // As many plans as the cache keeps, and ten more; then a thousand.
    transforms(3000..3100)?;
    let (few, held) = transforms(3100..3110)?;
    let (many, held_later) = transforms(3110..4110)?;
    assert_eq!((few.plans, many.plans), (few.max_plans, few.max_plans));
    assert!(many.misses >= few.misses + 1000, "{many:?}");
    assert!(many.bytes <= many.max_bytes, "{many:?}");
    assert_eq!(held, held_later);
    // Plans of about the same length have about the same bytes, prime or not.
    assert!(many.bytes <= 4 * few.bytes, "{few:?} {many:?}");
    clear_plan_cache();
    assert_eq!((plan_cache_stats().plans, plan_cache_stats().bytes), (0, 0));
    let (one, _) = transforms(3099..3100)?;
    assert_eq!((one.plans, one.misses), (1, many.misses + 1));
    Ok(())
}
