//! What loggers write, read back.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::common::{Scratch, blobs};
use indicatif::{ProgressDrawTarget, TermLike};
use torsh_data::{DataLoader, TensorDataset};
use torsh_functional as F;
use torsh_nn::{Linear, ModuleExt};
use torsh_optim::SGD;
use torsh_tensor::{Result, no_grad};
use torsh_train::callbacks::{
    Callback, CsvLogger, JsonLinesLogger, LearningRateMonitor, ProgressBar, TensorBoardLogger,
};
use torsh_train::metrics::Accuracy;
use torsh_train::{Trainer, TrainingResults};

type Loader = DataLoader<TensorDataset>;

fn run(
    callbacks: Vec<Box<dyn Callback>>,
    resume: Option<&Path>,
    max_steps: Option<usize>,
    epochs: usize,
) -> Result<(Trainer<Linear>, TrainingResults)> {
    let (x, y) = blobs(24)?;
    let loader: Loader = DataLoader::builder(TensorDataset::new(x, y))
        .batch_size(6)
        .build()?;
    let net = Linear::new(6, 3);
    no_grad(|| net.weight.fill_(0.1))?;
    no_grad(|| net.bias.as_ref().unwrap().zero_())?;
    let sgd = SGD::new(net.parameters(), 0.5)?;
    let mut builder = Trainer::builder(net, &sgd)
        .loss(|output, target| F::cross_entropy(output, target))
        .metric(Accuracy::new())
        .validate_every(2)
        .epochs(epochs);
    for c in callbacks {
        builder = builder.callback(Each(c));
    }
    let mut trainer = builder.build()?;
    if let Some(path) = resume {
        trainer.resume(path)?;
    }
    trainer.set_max_steps(max_steps);
    let results = trainer.fit(&loader, Some(&loader))?;
    Ok((trainer, results))
}

/// A boxed callback as one.
struct Each(Box<dyn Callback>);

macro_rules! forward {
    ($($event:ident)*) => {
        impl Callback for Each {
            fn name(&self) -> &str {
                self.0.name()
            }
            $(fn $event(&mut self, cx: &mut torsh_train::callbacks::Context<'_>) -> Result<()> {
                self.0.$event(cx)
            })*
        }
    };
}
forward!(on_fit_start on_epoch_start on_before_step on_step_end on_batch_end on_epoch_end on_fit_end);

/// The rows that a run of four epochs must give.
fn rows(results: &TrainingResults) -> Vec<Vec<f64>> {
    let of = |e: &torsh_train::EpochResults| {
        let val = |n: &str| e.val_metrics.get(n).copied().unwrap_or(f64::NAN);
        let step = (e.epoch + 1) as f64 * 4.0;
        let (loss, accuracy) = (e.train_metrics["loss"], e.train_metrics["accuracy"]);
        vec![
            e.epoch as f64,
            step,
            e.learning_rate,
            accuracy,
            loss,
            val("accuracy"),
            val("loss"),
        ]
    };
    results.history.iter().map(of).collect()
}

#[test]
fn a_table_and_lines_of_json() -> Result<()> {
    let scratch = Scratch::new("tables");
    let (csv, json) = (
        scratch.path("deep/in/metrics.csv"),
        scratch.path("metrics.jsonl"),
    );
    let loggers = || -> Vec<Box<dyn Callback>> {
        vec![
            Box::new(CsvLogger::new(&csv)),
            Box::new(JsonLinesLogger::new(&json).every_n_steps(3)),
        ]
    };
    let (_, results) = run(loggers(), None, None, 4)?;
    let want = rows(&results);

    let check = |what: &str| {
        let text = std::fs::read_to_string(&csv).unwrap();
        let mut lines = text.lines();
        let header = "epoch,step,learning_rate,train_accuracy,train_loss,val_accuracy,val_loss";
        assert_eq!(lines.next(), Some(header), "{what}");
        let got: Vec<Vec<f64>> = lines
            .map(|l| {
                l.split(',')
                    .map(|f| f.parse().unwrap_or(f64::NAN))
                    .collect()
            })
            .collect();
        let same = |a: &f64, b: &f64| a == b || (a.is_nan() && b.is_nan());
        let equal = got.len() == want.len()
            && got
                .iter()
                .flatten()
                .zip(want.iter().flatten())
                .all(|(a, b)| same(a, b));
        assert!(equal, "{what}: {got:?} is not {want:?}");

        let text = std::fs::read_to_string(&json).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        let steps: Vec<u64> = lines.iter().map(|l| l["step"].as_u64().unwrap()).collect();
        assert_eq!(steps, [3, 4, 6, 8, 9, 12, 12, 15, 16], "{what}");
        let epochs: Vec<_> = lines
            .iter()
            .filter(|l| l.get("train_loss").is_some())
            .collect();
        for (line, row) in epochs.iter().zip(&want) {
            assert_eq!(line["train_loss"], row[4], "{what}");
            assert_eq!(
                line.get("val_loss").and_then(|v| v.as_f64()).unwrap_or(0.0),
                if row[6].is_nan() { 0.0 } else { row[6] }
            );
        }
        assert!(lines[0]["loss"].is_f64() && lines[0]["learning_rate"] == 0.5);
    };
    check("whole");

    // Resumed from a checkpoint that is older than the last rows.
    let checkpoint = scratch.path("c.pt");
    let (trainer, _) = run(loggers(), None, Some(6), 4)?;
    trainer.save_checkpoint(&checkpoint)?;
    run(loggers(), Some(&checkpoint), Some(11), 4)?;
    run(loggers(), Some(&checkpoint), None, 4)?;
    check("resumed");
    Ok(())
}

fn varint(data: &[u8], at: &mut usize) -> u64 {
    let (mut v, mut shift) = (0, 0);
    loop {
        let b = data[*at];
        *at += 1;
        v |= u64::from(b & 127) << shift;
        shift += 7;
        if b < 128 {
            return v;
        }
    }
}

enum Field {
    Int(u64),
    Bits64(u64),
    Bits32(u32),
    Bytes(Vec<u8>),
}

fn fields(data: &[u8]) -> Vec<(u64, Field)> {
    let (mut at, mut out) = (0, Vec::new());
    while at < data.len() {
        let key = varint(data, &mut at);
        let value = match key & 7 {
            0 => Field::Int(varint(data, &mut at)),
            1 => {
                at += 8;
                Field::Bits64(u64::from_le_bytes(data[at - 8..at].try_into().unwrap()))
            }
            2 => {
                let n = varint(data, &mut at) as usize;
                at += n;
                Field::Bytes(data[at - n..at].to_vec())
            }
            5 => {
                at += 4;
                Field::Bits32(u32::from_le_bytes(data[at - 4..at].try_into().unwrap()))
            }
            other => panic!("wire type {other}"),
        };
        out.push((key >> 3, value));
    }
    out
}

/// An independent CRC-32C, bit by bit.
fn masked(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
        }
    }
    let crc = !crc;
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Step, tag and value of each number, and the steps at which runs went on.
fn events(path: &Path) -> (Vec<(u64, String, f32)>, Vec<u64>) {
    let bytes = std::fs::read(path).unwrap();
    let (mut at, mut scalars, mut restarts) = (0, Vec::new(), Vec::new());
    let mut first = true;
    while at < bytes.len() {
        let length = &bytes[at..at + 8];
        let n = u64::from_le_bytes(length.try_into().unwrap()) as usize;
        let sum = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(sum(at + 8), masked(length));
        let data = &bytes[at + 12..at + 12 + n];
        assert_eq!(sum(at + 12 + n), masked(data));
        at += 16 + n;
        let mut step = 0;
        for (number, field) in fields(data) {
            match (number, field) {
                (1, Field::Bits64(time)) => assert!(f64::from_bits(time) > 1.6e9),
                (2, Field::Int(s)) => step = s,
                (3, Field::Bytes(v)) => assert!(first && v == b"brain.Event:2"),
                (7, Field::Bytes(v)) => {
                    assert_eq!(v, [8, 1]);
                    restarts.push(step);
                }
                (5, Field::Bytes(summary)) => {
                    let [(1, Field::Bytes(value))] = &fields(&summary)[..] else {
                        panic!("no value");
                    };
                    let [(1, Field::Bytes(tag)), (2, Field::Bits32(v))] = &fields(value)[..] else {
                        panic!("no tag and number");
                    };
                    let tag = String::from_utf8(tag.clone()).unwrap();
                    scalars.push((step, tag, f32::from_bits(*v)));
                }
                (n, _) => panic!("field {n}"),
            }
        }
        first = false;
    }
    (scalars, restarts)
}

#[test]
fn event_files() -> Result<()> {
    let scratch = Scratch::new("events");
    let folder = scratch.path("runs");
    let loggers = || -> Vec<Box<dyn Callback>> {
        let logger = TensorBoardLogger::new(&folder).every_n_steps(5);
        vec![Box::new(LearningRateMonitor::new()), Box::new(logger)]
    };
    let (trainer, results) = run(loggers(), None, None, 2)?;
    let first = folder.join(&crate::common::names(&folder)[0]);
    let (scalars, restarts) = events(&first);
    let tags = |step: u64| -> Vec<(String, f32)> {
        let at = scalars.iter().filter(|s| s.0 == step);
        at.map(|(_, tag, v)| (tag.clone(), *v)).collect()
    };
    let e = &results.history[1];
    let number = |tag: &str, v: f64| (tag.to_string(), v as f32);
    assert_eq!(
        tags(8),
        [
            number("learning_rate", 0.5),
            number("accuracy/train", e.train_metrics["accuracy"]),
            number("loss/train", e.train_metrics["loss"]),
            number("accuracy/val", e.val_metrics["accuracy"]),
            number("loss/val", e.val_metrics["loss"]),
            number("lr", 0.5),
        ]
    );
    assert_eq!(tags(5)[0].0, "loss/step");
    assert!(restarts.is_empty());

    let checkpoint = scratch.path("c.pt");
    trainer.save_checkpoint(&checkpoint)?;
    run(loggers(), Some(&checkpoint), None, 4)?;
    let mut second = crate::common::names(&folder)
        .into_iter()
        .map(|n| folder.join(n));
    let second = second.find(|p| *p != first).unwrap();
    let (scalars, restarts) = events(&second);
    assert_eq!(restarts, [9]);
    assert!(scalars.iter().all(|s| s.0 > 8));
    if let Some(kept) = std::env::var_os("TORSH_KEEP_EVENTS") {
        for file in [first, second] {
            std::fs::copy(&file, Path::new(&kept).join(file.file_name().unwrap()))?;
        }
    }
    Ok(())
}

/// A terminal that keeps what is written to it.
#[derive(Clone, Debug, Default)]
struct Terminal(Arc<Mutex<String>>);

impl TermLike for Terminal {
    fn width(&self) -> u16 {
        200
    }
    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn write_line(&self, s: &str) -> io::Result<()> {
        self.0.lock().unwrap().push_str(&format!("{s}\n"));
        Ok(())
    }
    fn write_str(&self, s: &str) -> io::Result<()> {
        self.0.lock().unwrap().push_str(s);
        Ok(())
    }
    fn clear_line(&self) -> io::Result<()> {
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_bar_with_the_time_that_is_left() -> Result<()> {
    let terminal = Terminal::default();
    let target = ProgressDrawTarget::term_like_with_hz(Box::new(terminal.clone()), 255);
    let bar = ProgressBar::new().target(target);
    let (_, results) = run(vec![Box::new(bar)], None, None, 2)?;
    let text = terminal.0.lock().unwrap().clone();
    let e = &results.history[1];
    let line = format!(
        "epoch 2/2: train_accuracy {:.4}, train_loss {:.4}, val_accuracy {:.4}, val_loss {:.4}",
        e.train_metrics["accuracy"],
        e.train_metrics["loss"],
        e.val_metrics["accuracy"],
        e.val_metrics["loss"]
    );
    assert!(text.contains(&line), "{text}");
    assert!(
        text.contains("/8 ") && text.contains("all done in "),
        "{text}"
    );
    assert!(
        text.contains("epoch 1/2 [") && text.contains("loss "),
        "{text}"
    );
    Ok(())
}
