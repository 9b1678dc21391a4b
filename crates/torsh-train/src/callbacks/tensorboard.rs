//! TensorBoard event files.
//!
//! A file is a sequence of records: a length, its checksum, the bytes, their checksum. The bytes are a
//! protobuf-encoded `Event`, of which this module writes a few fields.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use torsh_tensor::Result;

use super::rows::{io_error, of_epoch, of_step};
use super::{Callback, Context};

/// CRC-32C (Castagnoli), of which the crates in our tree have only the other polynomial.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut i = 0;
        while i < 256 {
            let (mut c, mut bit) = (i as u32, 0);
            while bit < 8 {
                c = if c & 1 == 1 {
                    (c >> 1) ^ 0x82f6_3b78
                } else {
                    c >> 1
                };
                bit += 1;
            }
            table[i] = c;
            i += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |c, &b| {
        (c >> 8) ^ TABLE[((c ^ u32::from(b)) & 0xff) as usize]
    })
}

/// The checksum of a record, which is not that of bytes that hold a checksum themselves.
fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// A message in protobuf's encoding.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut v: u64) {
        while v >= 128 {
            self.0.push(v as u8 | 128);
            v >>= 7;
        }
        self.0.push(v as u8);
    }

    fn key(&mut self, field: u64, wire: u64) {
        self.varint(field << 3 | wire);
    }

    fn int(mut self, field: u64, v: u64) -> Self {
        self.key(field, 0);
        self.varint(v);
        self
    }

    fn double(mut self, field: u64, v: f64) -> Self {
        self.key(field, 1);
        self.0.extend(v.to_le_bytes());
        self
    }

    fn float(mut self, field: u64, v: f32) -> Self {
        self.key(field, 5);
        self.0.extend(v.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u64, v: &[u8]) -> Self {
        self.key(field, 2);
        self.varint(v.len() as u64);
        self.0.extend(v);
        self
    }
}

/// Writes event files as `torch.utils.tensorboard.SummaryWriter` does.
///
/// ```
/// use torsh_train::callbacks::EventWriter;
///
/// let folder = std::env::temp_dir().join(format!("torsh-events-{}", std::process::id()));
/// let mut writer = EventWriter::new(&folder)?;
/// writer.add_scalar("loss/train", 0.25, 1)?;
/// writer.flush()?;
/// let name = writer.path().file_name().and_then(|n| n.to_str());
/// assert!(name.is_some_and(|n| n.starts_with("events.out.tfevents.")));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug)]
pub struct EventWriter {
    path: PathBuf,
    file: BufWriter<File>,
}

fn seconds() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |d| d.as_secs_f64())
}

impl EventWriter {
    /// A new file in a folder, which is made where it is not there.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(folder: impl AsRef<Path>) -> Result<EventWriter> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let folder = folder.as_ref();
        std::fs::create_dir_all(folder).map_err(|e| io_error(folder, e))?;
        let name = format!(
            "events.out.tfevents.{:010}.torsh.{}.{}",
            seconds() as u64,
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = folder.join(name);
        let file = File::create_new(&path).map_err(|e| io_error(&path, e))?;
        let mut writer = EventWriter {
            path,
            file: BufWriter::new(file),
        };
        let version = Message::default().double(1, seconds());
        writer.record(&version.bytes(3, b"brain.Event:2").0)?;
        Ok(writer)
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn record(&mut self, data: &[u8]) -> Result<()> {
        let length = (data.len() as u64).to_le_bytes();
        let parts: [&[u8]; 4] = [
            &length,
            &masked(&length).to_le_bytes(),
            data,
            &masked(data).to_le_bytes(),
        ];
        parts
            .iter()
            .try_for_each(|p| self.file.write_all(p))
            .map_err(|e| io_error(&self.path, e))
    }

    fn event(step: usize) -> Message {
        Message::default().double(1, seconds()).int(2, step as u64)
    }

    /// Adds a number to a curve; it is kept in float32.
    #[torsh_tensor::names_caller]
    pub fn add_scalar(&mut self, tag: &str, value: f64, step: usize) -> Result<()> {
        let value = Message::default()
            .bytes(1, tag.as_bytes())
            .float(2, value as f32);
        let summary = Message::default().bytes(1, &value.0);
        self.record(&Self::event(step).bytes(5, &summary.0).0)
    }

    /// Tells TensorBoard that a run goes on at a step: it leaves out what earlier files of the
    /// folder have from there on.
    #[torsh_tensor::names_caller]
    pub fn restart(&mut self, step: usize) -> Result<()> {
        const START: u64 = 1;
        let log = Message::default().int(1, START);
        self.record(&Self::event(step).bytes(7, &log.0).0)
    }

    /// Hands what was added to the system.
    #[torsh_tensor::names_caller]
    pub fn flush(&mut self) -> Result<()> {
        self.file.flush().map_err(|e| io_error(&self.path, e))
    }
}

/// Writes the run's numbers for TensorBoard: curves `loss/train`, `loss/val`, .. over the steps.
///
/// ```
/// use torsh_train::callbacks::{Callback, TensorBoardLogger};
/// let logger = TensorBoardLogger::new("runs/first").every_n_steps(10);
/// assert_eq!(logger.name(), "tensorboard_logger");
/// ```
#[derive(Debug)]
pub struct TensorBoardLogger {
    folder: PathBuf,
    every_n_steps: usize,
    writer: Option<EventWriter>,
}

impl TensorBoardLogger {
    /// Into a folder: after each epoch.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        TensorBoardLogger {
            folder: folder.into(),
            every_n_steps: 0,
            writer: None,
        }
    }

    /// After how many steps the batch's loss and the learning rate are written, as `loss/step` and
    /// `learning_rate`; 0 for never.
    #[must_use]
    pub fn every_n_steps(mut self, n: usize) -> Self {
        self.every_n_steps = n;
        self
    }

    fn write(&mut self, step: usize, values: &[(String, f64)], of_step: bool) -> Result<()> {
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        for (name, value) in values {
            let tag = match (name.split_once('_'), of_step) {
                (Some((of @ ("train" | "val"), name)), _) => format!("{name}/{of}"),
                (_, true) if name == "loss" => "loss/step".to_string(),
                _ => name.clone(),
            };
            writer.add_scalar(&tag, *value, step)?;
        }
        writer.flush()
    }
}

impl Callback for TensorBoardLogger {
    fn name(&self) -> &str {
        "tensorboard_logger"
    }

    fn on_every_rank(&self) -> bool {
        false
    }

    #[torsh_tensor::names_caller]
    fn on_fit_start(&mut self, cx: &mut Context<'_>) -> Result<()> {
        let mut writer = EventWriter::new(&self.folder)?;
        if cx.step > 0 {
            writer.restart(cx.step + 1)?;
        }
        self.writer = Some(writer);
        Ok(())
    }

    #[torsh_tensor::names_caller]
    fn on_step_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        match self.every_n_steps > 0 && cx.step.is_multiple_of(self.every_n_steps) {
            true => self.write(cx.step, &of_step(cx), true),
            false => Ok(()),
        }
    }

    #[torsh_tensor::names_caller]
    fn on_epoch_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        self.write(cx.step, &of_epoch(cx), false)
    }

    #[torsh_tensor::names_caller]
    fn on_fit_end(&mut self, _cx: &mut Context<'_>) -> Result<()> {
        match self.writer.take() {
            Some(mut writer) => writer.flush(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 3720, B.4.
    #[test]
    fn checksums_are_those_of_the_rfc() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&ascending), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
