//! Elements as unsigned integers of the same order.

use half::{bf16, f16};

/// An element type with a total order: NaN is the greatest, and zeros are equal.
pub(crate) trait Ordered: Copy + Send + Sync + 'static {
    /// How many low bits of a key are used.
    const BITS: u32;
    /// The key of NaN, for types that have it.
    const NAN: Option<u64>;
    /// The element's place in the order.
    fn key(self) -> u64;
}

macro_rules! int {
    ($($t:ty, $u:ty);*) => {$(
        impl Ordered for $t {
            const BITS: u32 = <$t>::BITS;
            const NAN: Option<u64> = None;
            #[inline(always)]
            fn key(self) -> u64 {
                // Signed types: the sign bit, inverted, is the highest.
                (self as $u ^ (<$t>::MIN as $u)) as u64
            }
        }
    )*};
}
int!(u8, u8; i8, u8; i16, u16; i32, u32; i64, u64);

impl Ordered for bool {
    const BITS: u32 = 1;
    const NAN: Option<u64> = None;
    #[inline(always)]
    fn key(self) -> u64 {
        self as u64
    }
}

macro_rules! float {
    ($($t:ty, $u:ty, $i:ty);*) => {$(
        impl Ordered for $t {
            const BITS: u32 = <$u>::BITS;
            const NAN: Option<u64> = Some(<$u>::MAX as u64);
            #[inline(always)]
            fn key(self) -> u64 {
                const SIGN: $u = 1 << (<$u>::BITS - 1);
                let bits = self.to_bits();
                let bits = if bits == SIGN { 0 } else { bits };
                // Negative numbers grow downwards: all their bits are inverted.
                let ordered = bits ^ (((bits as $i) >> (<$u>::BITS - 1)) as $u | SIGN);
                (if self.is_nan() { <$u>::MAX } else { ordered }) as u64
            }
        }
    )*};
}
float!(f16, u16, i16; bf16, u16, i16; f32, u32, i32; f64, u64, i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_the_order() {
        let f = [
            f32::NEG_INFINITY,
            -1.5,
            -f32::MIN_POSITIVE,
            0.0,
            1e-40,
            2.0,
            f32::INFINITY,
        ];
        for w in f.windows(2) {
            assert!(w[0].key() < w[1].key(), "{w:?}");
        }
        assert_eq!((-0.0f32).key(), 0.0f32.key());
        assert!(f32::INFINITY.key() < f32::NAN.key());
        assert_eq!((-f64::NAN).key(), f64::NAN.key());
        assert!((-1i64).key() < 0i64.key() && i64::MIN.key() == 0 && 0u8.key() == 0);
        assert!(f16::from_f32(-2.0).key() < f16::from_f32(-1.0).key());
        assert!(bf16::INFINITY.key() < bf16::NAN.key());
    }
}
