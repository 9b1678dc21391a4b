//! WAV files, and sounds of another rate.

use std::f64::consts::PI;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use torsh_tensor::{Result, TorshError};

use super::io_error;
use super::riff;

/// A sound of one channel.
///
/// ```
/// use torsh_text::speech::Sound;
/// let silence = Sound { samples: vec![0.0; 8_000], rate: 16_000 };
/// assert_eq!(silence.seconds(), 0.5);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Sound {
    /// From -1 to 1.
    pub samples: Vec<f32>,
    /// Samples a second.
    pub rate: u32,
}

impl Sound {
    /// Reads a WAV file's bytes, as [`read_wav`] reads those of a file.
    ///
    /// # Errors
    /// As there, with `name` in the place of the file's.
    ///
    /// ```
    /// use torsh_text::speech::Sound;
    /// let sample_format = hound::SampleFormat::Int;
    /// let spec = hound::WavSpec { channels: 1, sample_rate: 16000, bits_per_sample: 16, sample_format };
    /// let mut bytes = std::io::Cursor::new(Vec::new());
    /// let mut file = hound::WavWriter::new(&mut bytes, spec)?;
    /// file.write_sample(16384i16)?;
    /// file.finalize()?;
    /// let sound = Sound::from_wav(&bytes.into_inner()[..], "a click")?;
    /// assert_eq!((sound.samples, sound.rate), (vec![0.5], 16000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn from_wav(bytes: impl Read, name: &str) -> Result<Sound> {
        let refuse = |why: String| TorshError::format("read_wav", format!("{name}: {why}"));
        let (format, bytes) = riff::read(bytes, name)?;
        let (channels, rate) = (usize::from(format.channels), format.rate);
        // What is left of a last frame that was not written whole is no sample.
        let frame = format.bytes() * channels;
        let bytes = &bytes[..bytes.len() - bytes.len() % frame];
        if bytes.is_empty() {
            return Err(refuse("it has no samples".into()));
        }
        let all = format.decode(bytes);
        if let Some(at) = all.iter().position(|v| !v.is_finite()) {
            return Err(refuse(format!("sample {at} is {}", all[at])));
        }
        let samples = match channels {
            1 => all,
            _ => {
                let mean = |frame: &[f32]| frame.iter().sum::<f32>() / channels as f32;
                all.chunks_exact(channels).map(mean).collect()
            }
        };
        Ok(Sound { samples, rate })
    }

    /// Gives the sound at another rate.
    ///
    /// # Errors
    /// As [`resample`].
    ///
    /// ```
    /// use torsh_text::speech::Sound;
    /// let sound = Sound { samples: vec![0.5; 8_000], rate: 16_000 }.at_rate(8_000)?;
    /// assert_eq!((sound.rate, sound.samples.len(), sound.seconds()), (8_000, 4_000, 0.5));
    /// assert!((sound.samples[2_000] - 0.5).abs() < 1e-5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn at_rate(self, rate: u32) -> Result<Sound> {
        let samples = match rate == self.rate {
            true => self.samples,
            false => resample(&self.samples, self.rate, rate)?,
        };
        Ok(Sound { samples, rate })
    }

    /// How long it is, in seconds.
    pub fn seconds(&self) -> f64 {
        self.samples.len() as f64 / f64::from(self.rate)
    }
}

/// Reads a WAV file: whole numbers of 8, 16, 24 or 32 bits, floats of 32 or 64 bits, mu-law or A-law. Several channels
/// become one, their mean.
///
/// A pipe cannot go back to write the length at the file's start: ffmpeg leaves 0xFFFFFFFF there, sox 0x7FFFF000, others 0.
/// Such a file is read to its end.
///
/// # Errors
/// No such file, no WAV file, one that is broken off or has no samples, other formats; the error names the file and says
/// why.
///
/// ```
/// use torsh_text::speech::read_wav;
/// let path = std::env::temp_dir().join(format!("torsh-wav-{}.wav", std::process::id()));
/// let spec = hound::WavSpec { channels: 2, sample_rate: 8000, bits_per_sample: 16, sample_format: hound::SampleFormat::Int };
/// let mut file = hound::WavWriter::create(&path, spec)?;
/// for sample in [16384i16, 0, -32768, -32768] {
///     file.write_sample(sample)?;
/// }
/// file.finalize()?;
/// let sound = read_wav(&path)?;
/// assert_eq!((sound.samples, sound.rate), (vec![0.25, -1.0], 8000));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[torsh_tensor::names_caller]
pub fn read_wav(path: impl AsRef<Path>) -> Result<Sound> {
    let path = path.as_ref();
    let file = File::open(path).map_err(|e| io_error("read_wav", path, &e))?;
    Sound::from_wav(BufReader::new(file), &path.display().to_string())
}

/// A sound at another rate. Frequencies that the lower of both rates cannot carry are left out, by a windowed sinc of
/// 12 zeros on each side.
///
/// # Errors
/// A rate that is not from 1000 to 768000.
///
/// ```
/// use torsh_text::speech::resample;
/// let tone = |rate: f32, n: usize| (0..n).map(|i| (i as f32 / rate * 2764.6).sin()).collect::<Vec<_>>();
/// let out = resample(&tone(44100.0, 4410), 44100, 16000)?;
/// assert_eq!(out.len(), 1600);
/// let error = out.iter().zip(tone(16000.0, 1600)).skip(50).take(1500).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
/// assert!(error < 1e-3, "{error}");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn resample(samples: &[f32], from: u32, to: u32) -> Result<Vec<f32>> {
    const ZEROS: f64 = 12.0;
    // Where the filter begins to fall.
    const ROLL_OFF: f64 = 0.95;
    for rate in [from, to] {
        if !(1_000..=768_000).contains(&rate) {
            return Err(TorshError::invalid(
                "resample",
                format!("{rate} samples a second are not from 1000 to 768000"),
            ));
        }
    }
    if from == to {
        return Ok(samples.to_vec());
    }
    let divisor = gcd(from, to);
    let (from, to) = (u64::from(from / divisor), u64::from(to / divisor));
    // The cutoff, in cycles of a sample of the source, and how far the filter reaches.
    let cutoff = (to as f64 / from as f64).min(1.0) * ROLL_OFF;
    let reach = (ZEROS / cutoff).ceil() as i64;
    let taps = 2 * reach as usize;
    let mut filters = Vec::with_capacity(to as usize * taps);
    for phase in 0..to {
        // The place of the output between two samples of the source.
        let place = (phase * from % to) as f64 / to as f64;
        let begin = filters.len();
        for tap in 0..taps as i64 {
            let t = (tap - reach + 1) as f64 - place;
            let x = t * cutoff;
            let window = (PI * x / (2.0 * ZEROS)).cos().powi(2);
            let sinc = if x == 0.0 {
                1.0
            } else {
                (PI * x).sin() / (PI * x)
            };
            filters.push(if x.abs() < ZEROS { sinc * window } else { 0.0 });
        }
        // A constant stays what it is.
        let sum: f64 = filters[begin..].iter().sum();
        filters[begin..].iter_mut().for_each(|f| *f /= sum);
    }
    let count = (samples.len() as u64 * to).div_ceil(from);
    let one = |n: u64| {
        let phase = (n % to) as usize;
        let filter = &filters[phase * taps..][..taps];
        let first = (n * from / to) as i64 - reach + 1;
        let terms = filter.iter().enumerate().filter_map(|(tap, f)| {
            let at = usize::try_from(first + tap as i64).ok()?;
            Some(f * f64::from(*samples.get(at)?))
        });
        terms.sum::<f64>() as f32
    };
    Ok((0..count).map(one).collect())
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn wav(
        spec: hound::WavSpec,
        write: impl Fn(&mut hound::WavWriter<&mut Cursor<Vec<u8>>>),
    ) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        let mut writer = hound::WavWriter::new(&mut bytes, spec).expect("a writer");
        write(&mut writer);
        writer.finalize().expect("a file");
        bytes.into_inner()
    }

    fn spec(bits_per_sample: u16, sample_format: hound::SampleFormat) -> hound::WavSpec {
        hound::WavSpec {
            channels: 1,
            sample_rate: 16000,
            bits_per_sample,
            sample_format,
        }
    }

    #[test]
    fn every_width_has_the_same_values() -> Result<()> {
        for bits in [8u16, 16, 24, 32] {
            let bytes = wav(spec(bits, hound::SampleFormat::Int), |w| {
                for part in [0i64, 1, -2] {
                    let value = part << (bits - 2);
                    w.write_sample(value as i32).expect("a sample");
                }
            });
            let sound = Sound::from_wav(&bytes[..], "a.wav")?;
            assert_eq!(sound.samples, [0.0, 0.5, -1.0], "{bits} bits");
        }
        let bytes = wav(spec(32, hound::SampleFormat::Float), |w| {
            w.write_sample(0.125f32).expect("a sample");
        });
        assert_eq!(Sound::from_wav(&bytes[..], "a.wav")?.samples, [0.125]);
        Ok(())
    }

    #[test]
    fn broken_files_are_named() {
        let bytes = wav(spec(16, hound::SampleFormat::Int), |w| {
            (0..100).for_each(|i| w.write_sample(i as i16).expect("a sample"));
        });
        for cut in 0..bytes.len() {
            let error = Sound::from_wav(&bytes[..cut], "cut.wav")
                .err()
                .map(|e| e.to_string());
            assert!(error.is_some_and(|e| e.contains("cut.wav")), "{cut}");
        }
        let nan = wav(spec(32, hound::SampleFormat::Float), |w| {
            w.write_sample(f32::NAN).expect("a sample");
        });
        let error = Sound::from_wav(&nan[..], "nan.wav")
            .err()
            .map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("sample 0 is NaN")));
        let missing = read_wav("no/such.wav").err().map(|e| e.to_string());
        assert!(missing.is_some_and(|e| e.contains("no/such.wav")));
    }

    /// A file with these chunks; a length of its own for the last one.
    fn file(fmt: &[u8], chunks: &[(&[u8; 4], &[u8])], riff: u32, length: Option<u32>) -> Vec<u8> {
        let mut out = b"RIFF".to_vec();
        out.extend(riff.to_le_bytes());
        out.extend(b"WAVE");
        let all = [(b"fmt ", fmt)].into_iter().chain(chunks.iter().copied());
        let last = chunks.len();
        for (i, (id, bytes)) in all.enumerate() {
            out.extend(id);
            let stated = length.filter(|_| i == last).unwrap_or(bytes.len() as u32);
            out.extend(stated.to_le_bytes());
            out.extend(bytes);
            if bytes.len() % 2 == 1 && i != last {
                out.push(0);
            }
        }
        out
    }

    /// A format of one channel at 16 kHz, with more bytes behind it.
    fn format(tag: u16, bits: u16, more: &[u8]) -> Vec<u8> {
        let width = bits / 8;
        let mut out = Vec::new();
        out.extend(tag.to_le_bytes());
        out.extend(1u16.to_le_bytes());
        out.extend(16000u32.to_le_bytes());
        out.extend((16000 * u32::from(width)).to_le_bytes());
        out.extend(width.to_le_bytes());
        out.extend(bits.to_le_bytes());
        out.extend(more);
        out
    }

    #[test]
    fn lengths_of_pipes_mean_to_the_end() -> Result<()> {
        let four: Vec<u8> = [0i16, 16384, -16384, -32768]
            .iter()
            .flat_map(|s| s.to_le_bytes())
            .collect();
        let fmt = format(1, 16, &[]);
        // ffmpeg, sox, a header that was never completed, and writers that count back from the largest length.
        for length in [0xFFFF_FFFF, 0x7FFF_F000, 0, 0xFFFF_FFDB, 0x8000_0000] {
            let bytes = file(&fmt, &[(b"data", &four)], 0xFFFF_FFFF, Some(length));
            let sound = Sound::from_wav(&bytes[..], "pipe.wav")?;
            assert_eq!(sound.samples, [0.0, 0.5, -0.5, -1.0], "{length:x}");
            // A last sample that is not whole is left out.
            let sound = Sound::from_wav(&bytes[..bytes.len() - 1], "pipe.wav")?;
            assert_eq!(sound.samples, [0.0, 0.5, -0.5], "{length:x}");
        }
        // Other chunks are passed over, with the byte that fills up odd ones.
        let chunks: [(&[u8; 4], &[u8]); 2] = [(b"LIST", b"INFOx"), (b"data", &four)];
        let bytes = file(&fmt, &chunks, 100, None);
        assert_eq!(Sound::from_wav(&bytes[..], "a.wav")?.samples.len(), 4);
        // A file without samples is no empty sound, and what follows them is none.
        for chunks in [
            &[(b"data", &[][..])][..],
            &[
                (b"data", &[][..]),
                (b"LIST", &b"INFOISFT\x04\0\0\0Lavf"[..]),
            ],
        ] {
            let bytes = file(&fmt, chunks, 100, None);
            let error = Sound::from_wav(&bytes[..], "no.wav").err();
            let error = error.map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains("no.wav: it has no samples"), "{error}");
        }
        Ok(())
    }

    #[test]
    fn other_formats_are_read_or_named() -> Result<()> {
        let read = |fmt: &[u8], data: &[u8]| {
            let bytes = file(fmt, &[(b"data", data)], 100, None);
            Ok::<_, TorshError>(Sound::from_wav(&bytes[..], "a.wav")?.samples)
        };
        let doubles: Vec<u8> = [0.25f64, -1.0]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        assert_eq!(read(&format(3, 64, &[]), &doubles)?, [0.25, -1.0]);
        // Python's audioop.ulaw2lin and alaw2lin of these bytes, over 32768.
        let codes = [0x00, 0x7F, 0x80, 0xFF, 0x2A, 0xD5];
        let of = |all: [i32; 6]| all.map(|v| v as f32 / 32768.0);
        let mu = of([-32124, 0, 32124, 0, -5372, 716]);
        assert_eq!(read(&format(7, 8, &[]), &codes)?, mu);
        let a = of([-5504, -848, 5504, 848, -32256, 8]);
        assert_eq!(read(&format(6, 8, &[]), &codes)?, a);
        // WAVE_FORMAT_EXTENSIBLE: valid bits, speakers, and the format's GUID.
        let guid = |tag: u16| {
            let mut more = vec![22, 0, 16, 0, 4, 0, 0, 0];
            more.extend(tag.to_le_bytes());
            more.extend(b"\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71");
            more
        };
        let half = 16384i16.to_le_bytes();
        assert_eq!(read(&format(0xFFFE, 16, &guid(1)), &half)?, [0.5]);
        assert_eq!(read(&format(0xFFFE, 64, &guid(3)), &doubles)?, [0.25, -1.0]);
        // 24 bits of which 20 are used.
        let mut twenty = guid(1);
        twenty[2] = 20;
        assert_eq!(read(&format(0xFFFE, 24, &twenty), &[0, 0, 0x40])?, [0.5]);
        for (tag, bits, why) in [
            (2u16, 4, "ADPCM"),
            (0x55, 16, "MP3"),
            (0x1234, 16, "0x1234"),
            (1, 64, "64 bits"),
            (1, 12, "12 bits"),
        ] {
            let error = read(&format(tag, bits, &[]), &doubles).err();
            let error = error.map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains(why), "{error}");
        }
        let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n";
        let error = Sound::from_wav(&pointer[..], "a.wav").err();
        assert!(error.is_some_and(|e| e.to_string().contains("git-lfs")));
        Ok(())
    }

    #[test]
    fn constants_stay_and_high_tones_go() -> Result<()> {
        for (from, to) in [
            (8000, 16000),
            (48000, 16000),
            (22050, 16000),
            (16000, 44100),
        ] {
            let out = resample(&[0.5; 4000], from, to)?;
            let middle = &out[out.len() / 4..out.len() / 2];
            assert!(
                middle.iter().all(|v| (v - 0.5).abs() < 1e-6),
                "{from} to {to}"
            );
        }
        let alternating: Vec<f32> = (0..4800)
            .map(|i| if i % 2 == 0 { 1.0 } else { -1.0 })
            .collect();
        let out = resample(&alternating, 48000, 16000)?;
        assert!(out[100..1500].iter().all(|v| v.abs() < 1e-3));
        assert!(resample(&[0.0], 0, 16000).is_err());
        Ok(())
    }
}
