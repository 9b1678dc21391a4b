//! Integers of any size.

use std::fmt;

/// An integer of more than 64 bits, as the state of a random generator is.
///
/// ```
/// use torsh_serialize::BigInt;
///
/// let big = BigInt::from(1u128 << 127);
/// assert_eq!(u128::try_from(&big), Ok(1 << 127));
/// assert!(i128::try_from(&big).is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BigInt(Vec<u8>);

impl BigInt {
    /// From the bytes of its two's complement, the lowest first.
    pub fn from_le_bytes(bytes: &[u8]) -> BigInt {
        let mut bytes = bytes.to_vec();
        // Bytes that only repeat the sign say nothing.
        while let [.., before, last] = bytes[..]
            && ((last == 0 && before < 128) || (last == 255 && before >= 128))
        {
            bytes.pop();
        }
        if bytes == [0] {
            bytes.clear();
        }
        BigInt(bytes)
    }

    /// The bytes of its two's complement, the lowest first, as few as there can be.
    pub fn to_le_bytes(&self) -> &[u8] {
        &self.0
    }

    fn is_negative(&self) -> bool {
        self.0.last().is_some_and(|&b| b >= 128)
    }

    fn extended<const N: usize>(&self) -> Option<[u8; N]> {
        let mut out = [if self.is_negative() { 255 } else { 0 }; N];
        out.get_mut(..self.0.len())?.copy_from_slice(&self.0);
        Some(out)
    }
}

/// The number does not fit the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the integer does not fit")
    }
}

impl std::error::Error for TooLarge {}

impl TryFrom<&BigInt> for i128 {
    type Error = TooLarge;

    fn try_from(big: &BigInt) -> Result<i128, TooLarge> {
        big.extended().map(i128::from_le_bytes).ok_or(TooLarge)
    }
}

impl TryFrom<&BigInt> for u128 {
    type Error = TooLarge;

    fn try_from(big: &BigInt) -> Result<u128, TooLarge> {
        if big.is_negative() {
            return Err(TooLarge);
        }
        // A zero byte for the sign may be the 17th.
        let bytes = big.extended::<17>().ok_or(TooLarge)?;
        let (low, sign) = bytes.split_at(16);
        match (low.try_into(), sign) {
            (Ok(low), [0]) => Ok(u128::from_le_bytes(low)),
            _ => Err(TooLarge),
        }
    }
}

impl From<i128> for BigInt {
    fn from(v: i128) -> BigInt {
        BigInt::from_le_bytes(&v.to_le_bytes())
    }
}

impl From<u128> for BigInt {
    fn from(v: u128) -> BigInt {
        let mut bytes = v.to_le_bytes().to_vec();
        bytes.push(0);
        BigInt::from_le_bytes(&bytes)
    }
}

/// In decimals where 128 bits hold it.
impl fmt::Debug for BigInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (i128::try_from(self), u128::try_from(self)) {
            (Ok(v), _) => write!(f, "{v}"),
            (_, Ok(v)) => write!(f, "{v}"),
            _ => write!(f, "an int of {} bytes", self.0.len()),
        }
    }
}
