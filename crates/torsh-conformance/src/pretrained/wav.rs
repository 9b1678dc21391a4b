//! Recordings: WAV files of 16 bits and one channel.

/// The samples of a recording.
#[derive(Debug)]
pub(super) struct Recording {
    /// How many a second.
    pub rate: u32,
    pub samples: Vec<i16>,
}

/// Reads the bytes of a WAV file with PCM of 16 bits and one channel; chunks of other kinds are passed over.
pub(super) fn read(bytes: &[u8]) -> Result<Recording, String> {
    let refuse = |why: &str| Err(format!("WAV: {why}"));
    let u16_at = |b: &[u8], i: usize| u16::from_le_bytes([b[i], b[i + 1]]);
    if bytes.len() < 12 || &bytes[..4] != b"RIFF" || &bytes[8..12] != b"WAVE" {
        return refuse("the file does not begin as RIFF with WAVE");
    }
    let (mut rate, mut rest) = (None, &bytes[12..]);
    while rest.len() >= 8 {
        let (head, body) = rest.split_at(8);
        let size = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let Some(chunk) = body.get(..size) else {
            return refuse(&format!(
                "a chunk of {size} bytes has only {} in the file",
                body.len()
            ));
        };
        match &head[..4] {
            b"fmt " => {
                if chunk.len() < 16 {
                    return refuse(&format!("the format has {size} bytes, fewer than 16"));
                }
                let (format, channels, bits) =
                    (u16_at(chunk, 0), u16_at(chunk, 2), u16_at(chunk, 14));
                if (format, channels, bits) != (1, 1, 16) {
                    return refuse(&format!(
                        "format {format}, {channels} channels of {bits} bits; only format 1 (PCM), \
                         1 channel of 16 bits is read"
                    ));
                }
                let r = [chunk[4], chunk[5], chunk[6], chunk[7]];
                rate = Some(u32::from_le_bytes(r));
            }
            b"data" => {
                let Some(rate) = rate else {
                    return refuse("the samples come before their format");
                };
                if !size.is_multiple_of(2) {
                    return refuse(&format!("{size} bytes are no samples of 16 bits"));
                }
                let pairs = chunk.chunks_exact(2);
                let samples = pairs.map(|b| i16::from_le_bytes([b[0], b[1]])).collect();
                return Ok(Recording { rate, samples });
            }
            _ => {}
        }
        // Chunks begin at even places.
        rest = body.get(size + size % 2..).unwrap_or(&[]);
    }
    refuse("the file has no samples")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(id: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let mut bytes = id.to_vec();
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(body);
        bytes.resize(bytes.len() + body.len() % 2, 0);
        bytes
    }

    fn file(channels: u16, chunks: &[Vec<u8>]) -> Vec<u8> {
        let mut format = Vec::new();
        for v in [1, channels, 16000, 0, 32000, 0, 2, 16] {
            format.extend(v.to_le_bytes());
        }
        let mut body = b"WAVE".to_vec();
        body.extend(chunk(b"LIST", b"odd"));
        body.extend(chunk(b"fmt ", &format));
        body.extend(chunks.concat());
        chunk(b"RIFF", &body)
    }

    #[test]
    fn samples_are_found_behind_other_chunks() {
        let recording = read(&file(1, &[chunk(b"data", &[1, 0, 0xff, 0xff])])).unwrap();
        assert_eq!((recording.rate, recording.samples), (16000, vec![1, -1]));
    }

    #[test]
    fn other_files_are_refused() {
        let whole = file(1, &[chunk(b"data", &[1, 0, 2, 0])]);
        for (bytes, part) in [
            (b"RIFX".to_vec(), "RIFF"),
            (whole[..whole.len() - 1].to_vec(), "only 3"),
            (file(2, &[]), "2 channels"),
            (file(1, &[]), "no samples"),
            (file(1, &[chunk(b"data", &[1])]), "1 bytes"),
        ] {
            let error = read(&bytes).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
