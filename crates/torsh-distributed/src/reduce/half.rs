//! The two 16-bit floating-point types, read as float32 and rounded back to the nearest.

/// A bfloat16.
#[inline(always)]
pub(super) fn read_bf16(bytes: [u8; 2]) -> f32 {
    f32::from_bits(u32::from(u16::from_ne_bytes(bytes)) << 16)
}

/// The nearest bfloat16; of two as near ones that with an even last digit.
#[inline(always)]
pub(super) fn write_bf16(v: f32) -> [u8; 2] {
    let bits = v.to_bits();
    let rounded = if v.is_nan() {
        // A NaN keeps a digit that is set.
        (bits >> 16) | 0x40
    } else {
        (bits + 0x7fff + ((bits >> 16) & 1)) >> 16
    };
    (rounded as u16).to_ne_bytes()
}

/// A float16.
#[inline(always)]
pub(super) fn read_f16(bytes: [u8; 2]) -> f32 {
    let h = u32::from(u16::from_ne_bytes(bytes));
    let sign = (h & 0x8000) << 16;
    let magnitude = h & 0x7fff;
    let value = if magnitude >= 0x7c00 {
        // Infinity and NaN.
        f32::from_bits((magnitude << 13) | 0x7f80_0000)
    } else {
        // The exponent moves by a multiplication, which is right for the smallest numbers too.
        f32::from_bits(magnitude << 13) * f32::from_bits((254 - 15) << 23)
    };
    f32::from_bits(value.to_bits() | sign)
}

/// The nearest float16; of two as near ones that with an even last digit.
#[inline(always)]
pub(super) fn write_f16(v: f32) -> [u8; 2] {
    let bits = v.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    let rounded = if magnitude >= 0x4780_0000 {
        // 65536 and above: infinity, or a NaN.
        if magnitude > 0x7f80_0000 {
            0x7e00
        } else {
            0x7c00
        }
    } else if magnitude < 0x3880_0000 {
        // Below the smallest normal number: adding 0.5 moves the digits to where float32 rounds them.
        (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits()
    } else {
        let odd = (magnitude >> 13) & 1;
        (magnitude - (112 << 23) + 0xfff + odd) >> 13
    };
    ((rounded | sign) as u16).to_ne_bytes()
}
