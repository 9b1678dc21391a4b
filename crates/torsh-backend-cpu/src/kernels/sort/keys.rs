//! Elements as unsigned integers of the same order.

use half::{bf16, f16};

use crate::scalar::byte::Byte;

/// An element type with a total order: NaN is the greatest, and zeros are equal.
pub(crate) trait Ordered: Copy + Send + Sync + 'static {
    /// How many low bits of a key are used.
    const BITS: u32;
    /// The key of NaN, for types that have it.
    const NAN: Option<u64>;
    /// The element's place in the order.
    fn key(self) -> u64;
    /// The element of a key, if it is the only one.
    fn of_key(key: u64) -> Option<Self>;
    /// Whether the element comes after `o` in the order.
    #[inline(always)]
    fn above(self, o: Self) -> bool {
        self.key() > o.key()
    }
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
            #[inline(always)]
            fn of_key(key: u64) -> Option<Self> {
                Some((key as $u ^ (<$t>::MIN as $u)) as $t)
            }
            #[inline(always)]
            fn above(self, o: Self) -> bool {
                self > o
            }
        }
    )*};
}
int!(u8, u8; i8, u8; i16, u16; i32, u32; i64, u64);

impl Ordered for Byte {
    const BITS: u32 = 1;
    const NAN: Option<u64> = None;
    #[inline(always)]
    fn key(self) -> u64 {
        self.get() as u64
    }
    #[inline(always)]
    fn of_key(key: u64) -> Option<Self> {
        Some(Byte::new(key != 0))
    }
}

macro_rules! float {
    ($($t:ty, $u:ty, $i:ty $(, $native:ident)?);*) => {$(
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
            #[inline(always)]
            fn of_key(key: u64) -> Option<Self> {
                const SIGN: $u = 1 << (<$u>::BITS - 1);
                let key = key as $u;
                // There are two zeros, and many kinds of NaN.
                if key == SIGN || key == <$u>::MAX {
                    return None;
                }
                let negative = ((!key as $i) >> (<$u>::BITS - 1)) as $u;
                Some(<$t>::from_bits(key ^ (negative | SIGN)))
            }
            $(
            #[inline(always)]
            fn above(self, $native: Self) -> bool {
                // NaN is above all but NaN.
                ((self > $native) | self.is_nan()) & !$native.is_nan()
            }
            )?
        }
    )*};
}
float!(f16, u16, i16; bf16, u16, i16; f32, u32, i32, o; f64, u64, i64, o);

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[torsh_macros::unit_test]
    fn elements_come_back_from_their_keys() {
        for bits in (0..=u32::MAX).step_by(65_521) {
            let x = f32::from_bits(bits);
            match f32::of_key(x.key()) {
                Some(y) => assert_eq!(y.to_bits(), bits),
                None => assert!(x == 0.0 || x.is_nan()),
            }
        }
        for bits in 0..=u16::MAX {
            let x = f16::from_bits(bits);
            match f16::of_key(x.key()) {
                Some(y) => assert_eq!(y.to_bits(), bits),
                None => assert!(x == f16::ZERO || x.is_nan()),
            }
            assert_eq!(i16::of_key((bits as i16).key()), Some(bits as i16));
        }
        for x in [i64::MIN, -1, 0, 7, i64::MAX] {
            assert_eq!(i64::of_key(x.key()), Some(x));
        }
    }

    #[torsh_macros::unit_test]
    fn above_is_the_order_of_keys() {
        let all = [f64::NEG_INFINITY, -2.0, -0.0, 0.0, 1.0, f64::INFINITY];
        for a in all.into_iter().chain([f64::NAN]) {
            for b in all.into_iter().chain([-f64::NAN]) {
                assert_eq!(a.above(b), a.key() > b.key(), "{a} {b}");
                let (x, y) = (f16::from_f64(a), f16::from_f64(b));
                assert_eq!(x.above(y), x.key() > y.key(), "{a} {b}");
            }
        }
    }

    #[torsh_macros::unit_test]
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
