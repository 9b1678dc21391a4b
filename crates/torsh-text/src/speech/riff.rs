//! The chunks of WAV files, and how they write samples.

use std::io::{self, Read};

use torsh_tensor::{Result, TorshError};

/// Lengths from here on that reach past the end of the file are those of pipes, whose true length was not known when the
/// header was written: sox writes this one.
const UNKNOWN: u64 = 0x7FFF_F000;

/// How samples are written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Coding {
    Unsigned8,
    /// Signed whole numbers of two to four bytes.
    Signed(usize),
    F32,
    F64,
    MuLaw,
    ALaw,
}

/// What a file says of its samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Format {
    coding: Coding,
    pub(super) channels: u16,
    pub(super) rate: u32,
}

/// What the formats that are not read are called.
fn name_of(tag: u16) -> String {
    match tag {
        0x0002 | 0x0011 => "ADPCM".into(),
        0x0031 => "GSM 6.10".into(),
        0x0040 | 0x0045 => "G.72x".into(),
        0x0050 => "MPEG audio".into(),
        0x0055 => "MP3".into(),
        0x00FF | 0x1610 => "AAC".into(),
        tag => format!("format 0x{tag:04X}"),
    }
}

impl Format {
    /// The content of the chunk `fmt `.
    fn parse(chunk: &[u8]) -> std::result::Result<Format, String> {
        let two = |at: usize| Some(u16::from_le_bytes([*chunk.get(at)?, *chunk.get(at + 1)?]));
        let four = |at: usize| Some(u32::from(two(at)?) | u32::from(two(at + 2)?) << 16);
        let short = || "its description of the format is too short".to_string();
        let (Some(tag), Some(channels), Some(rate), Some(bits)) =
            (two(0), two(2), four(4), two(14))
        else {
            return Err(short());
        };
        if channels == 0 || rate == 0 {
            return Err(format!("{channels} channels of {rate} samples a second"));
        }
        let tag = match tag {
            // WAVE_FORMAT_EXTENSIBLE: the format is the start of a GUID.
            0xFFFE => two(24).ok_or_else(short)?,
            tag => tag,
        };
        // WAVE_FORMAT_EXTENSIBLE may say that fewer of them are used: these are the upper ones.
        let width = if bits % 8 == 0 { bits / 8 } else { 0 };
        let coding = match (tag, width) {
            (1, 1) => Coding::Unsigned8,
            (1, 2..=4) => Coding::Signed(width.into()),
            (3, 4) => Coding::F32,
            (3, 8) => Coding::F64,
            (6, 1) => Coding::ALaw,
            (7, 1) => Coding::MuLaw,
            (1, _) => return Err(format!("whole numbers of {bits} bits are not read")),
            (3, _) => return Err(format!("floats of {bits} bits are not read")),
            (tag, _) => return Err(format!("{} is not read", name_of(tag))),
        };
        Ok(Format {
            coding,
            channels,
            rate,
        })
    }

    /// The bytes of one sample of one channel.
    pub(super) fn bytes(&self) -> usize {
        match self.coding {
            Coding::Unsigned8 | Coding::MuLaw | Coding::ALaw => 1,
            Coding::Signed(bytes) => bytes,
            Coding::F32 => 4,
            Coding::F64 => 8,
        }
    }

    /// The samples from -1 to 1.
    pub(super) fn decode(&self, bytes: &[u8]) -> Vec<f32> {
        let one = |sample: &[u8]| -> f32 {
            let array = |n: usize| {
                let mut out = [0; 8];
                out[..n].copy_from_slice(&sample[..n]);
                out
            };
            match self.coding {
                Coding::Unsigned8 => (f32::from(sample[0]) - 128.0) / 128.0,
                Coding::Signed(n) => {
                    let value = i64::from_le_bytes(array(n)) << (64 - 8 * n) >> (64 - 8 * n);
                    (value as f64 / f64::from(8 * n as u32 - 1).exp2()) as f32
                }
                Coding::F32 => f32::from_bits(u64::from_le_bytes(array(4)) as u32),
                Coding::F64 => f64::from_le_bytes(array(8)) as f32,
                Coding::MuLaw => f32::from(mu_law(sample[0])) / 32768.0,
                Coding::ALaw => f32::from(a_law(sample[0])) / 32768.0,
            }
        };
        bytes.chunks_exact(self.bytes()).map(one).collect()
    }
}

/// A byte of G.711's mu-law as a sample of 16 bits.
fn mu_law(byte: u8) -> i16 {
    let code = !byte;
    let size = (((i16::from(code & 0x0F) << 3) + 0x84) << ((code >> 4) & 7)) - 0x84;
    if code & 0x80 != 0 { -size } else { size }
}

/// A byte of G.711's A-law as a sample of 16 bits.
fn a_law(byte: u8) -> i16 {
    let code = byte ^ 0x55;
    let (low, segment) = (i16::from(code & 0x0F) << 4, (code >> 4) & 7);
    let size = match segment {
        0 => low + 8,
        _ => (low + 0x108) << (segment - 1),
    };
    if code & 0x80 != 0 { size } else { -size }
}

/// The next bytes, fewer where the source ends.
fn up_to(from: &mut impl Read, n: u64) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    from.take(n).read_to_end(&mut out)?;
    Ok(out)
}

/// Whether bytes are chunks from the first to the last.
fn are_chunks(mut bytes: &[u8]) -> bool {
    while let [a, b, c, d, rest @ ..] = bytes {
        let Some((length, rest)) = rest.split_first_chunk::<4>() else {
            return false;
        };
        let length = u32::from_le_bytes(*length) as usize;
        if ![a, b, c, d].iter().all(|c| (b' '..=b'~').contains(c)) || length > rest.len() {
            return false;
        }
        bytes = rest.get(length + length % 2..).unwrap_or_default();
    }
    bytes.is_empty()
}

/// The format and the samples' bytes of a WAV file.
#[track_caller]
pub(super) fn read(mut from: impl Read, name: &str) -> Result<(Format, Vec<u8>)> {
    let refuse = |why: String| TorshError::format("read_wav", format!("{name}: {why}"));
    let failed = |e: io::Error| refuse(format!("it cannot be read: {e}"));
    let broken_off = || refuse("the file is broken off".into());
    let mut start = up_to(&mut from, 12).map_err(failed)?;
    match start.get(..4) {
        Some(b"RIFF" | b"RF64" | b"BW64") if start.len() == 12 && start[8..] == *b"WAVE" => {}
        Some(b"RIFF" | b"RF64" | b"BW64") if start.len() < 12 => return Err(broken_off()),
        Some(b"RIFX") => {
            return Err(refuse(
                "no WAV file that is read: it is big-endian (RIFX)".into(),
            ));
        }
        _ => {
            start.extend(up_to(&mut from, 1024).map_err(failed)?);
            torsh_core::check_git_lfs("read_wav", name, &start)?;
            return Err(refuse("no WAV file: it does not begin as one".into())
                .with_hint("convert it: ffmpeg -i FILE out.wav"));
        }
    }
    let mut format = None;
    // The length of the samples where 32 bits do not hold it.
    let mut long = None;
    loop {
        let head = up_to(&mut from, 8).map_err(failed)?;
        let Some((id, length)) = head.split_first_chunk::<4>() else {
            return Err(match head.is_empty() && format.is_some() {
                true => refuse("it has no samples: there is no chunk `data`".into()),
                false => broken_off(),
            });
        };
        let Ok(length) = <[u8; 4]>::try_from(length) else {
            return Err(broken_off());
        };
        let length = u64::from(u32::from_le_bytes(length));
        if id == b"data" {
            let format =
                format.ok_or_else(|| refuse("no WAV file: `data` before `fmt `".into()))?;
            let length = long.filter(|_| length == 0xFFFF_FFFF).unwrap_or(length);
            return Ok((
                format,
                samples(&mut from, length)
                    .map_err(failed)?
                    .ok_or_else(broken_off)?,
            ));
        }
        // Chunks of an odd length are followed by a byte.
        let all = length + length % 2;
        match id {
            b"fmt " | b"ds64" => {
                let chunk = up_to(&mut from, length.min(64)).map_err(failed)?;
                let rest = all.saturating_sub(chunk.len() as u64);
                if (chunk.len() as u64) < length.min(64)
                    || !pass(&mut from, rest).map_err(failed)?
                {
                    return Err(broken_off());
                }
                match id {
                    b"fmt " => format = Some(Format::parse(&chunk).map_err(&refuse)?),
                    _ => {
                        let size = chunk.get(8..16).and_then(|b| b.try_into().ok());
                        long = size.map(u64::from_le_bytes);
                    }
                }
            }
            _ => {
                if !pass(&mut from, all).map_err(failed)? {
                    return Err(broken_off());
                }
            }
        }
    }
}

/// Passes over bytes; whether they were there.
fn pass(from: &mut impl Read, n: u64) -> io::Result<bool> {
    Ok(io::copy(&mut from.take(n), &mut io::sink())? == n)
}

/// The bytes of samples; `None` where the file is broken off. Memory grows with what is read, as what the header says of
/// the length need not be true.
fn samples(from: &mut impl Read, length: u64) -> io::Result<Option<Vec<u8>>> {
    let most = if length == 0 { u64::MAX } else { length };
    let bytes = up_to(from, most)?;
    Ok(match length {
        // Nothing, and then other chunks; or all of what is there, of a writer that did not come back.
        0 if are_chunks(&bytes) => Some(Vec::new()),
        0 => Some(bytes),
        _ if bytes.len() as u64 == length || length >= UNKNOWN => Some(bytes),
        _ => None,
    })
}
