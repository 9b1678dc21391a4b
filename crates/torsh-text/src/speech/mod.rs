//! Speech: Whisper, log-mel spectrograms, voice activity detection, WAV files.
//!
//! ```no_run
//! use torsh_text::speech::{TranscribeOptions, Whisper};
//! // A folder of Hugging Face's library, or of CTranslate2.
//! let whisper = Whisper::from_pretrained("whisper-tiny.en")?;
//! let transcript = whisper.transcribe("speech.wav", &TranscribeOptions::new())?;
//! for segment in &transcript.segments {
//!     println!("{:6.2} - {:6.2} {}", segment.start, segment.end, segment.text);
//! }
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```

mod compression;
mod ct2;
mod mel;
mod options;
mod riff;
mod timestamps;
mod tokens;
mod vad;
mod wav;
mod whisper;

use std::io;
use std::path::Path;

use torsh_tensor::TorshError;

pub use ct2::CTranslate2;
pub use mel::MelSpectrogram;
pub use options::{Task, TranscribeOptions};
pub use timestamps::WhisperTimestamps;
pub use tokens::WhisperTokens;
pub use vad::{SpeechOptions, SpeechSegment, Vad};
pub use wav::{Sound, read_wav, resample};
pub use whisper::{Segment, Transcript, Whisper};

/// The error of a file that cannot be read, with its name.
fn io_error(op: &str, path: &Path, error: &io::Error) -> TorshError {
    io::Error::new(error.kind(), format!("{op}: {}: {error}", path.display())).into()
}
