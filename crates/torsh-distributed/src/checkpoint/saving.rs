//! Saving: what each rank writes, and when the new checkpoint takes the place of the old one.
//!
//! The files of a save are in a folder of their own within the checkpoint's. Nothing refers to it until the index, which
//! is replaced by one rename when all files are on the disk: so at any moment the index speaks of a whole checkpoint.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use torsh_serialize::write_bytes;
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::index::{BLOCK, FORMAT, INDEX, Index, TensorIndex, VERSION, io_error};
use super::loading::text;
use super::plan::{Offer, Plan, plan};
use super::state::State;
use super::write::{self, ToWrite, Written};
use crate::group::ProcessGroup;

const OP: &str = "checkpoint::save";

/// Folders of saves begin so, and go on with [`DIGITS`] hexadecimal digits: nothing else is ever removed.
const FOLDER: &str = "pieces-";
const DIGITS: usize = 24;

/// Tags of the messages of saves that go on beside other communication.
const FIRST_TAG: u32 = 0x6000;
const TAGS: u32 = 0x800;

/// What a rank is told to write.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Orders {
    folder: String,
    tag: u32,
    /// The numbers of its offers.
    write: Vec<usize>,
}

/// Saves that are under way, by folder and rank: one after the other.
static RUNNING: Mutex<Option<HashMap<(PathBuf, usize), Arc<Finished>>>> = Mutex::new(None);

#[derive(Default)]
struct Finished {
    done: Mutex<bool>,
    changed: Condvar,
}

/// A save's turn at a folder.
struct Turn {
    key: (PathBuf, usize),
    finished: Arc<Finished>,
}

impl Turn {
    /// Waits until an earlier save to this folder is done.
    fn take(dir: &Path, rank: usize) -> Turn {
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
        let key = (dir, rank);
        loop {
            let mut running = RUNNING.lock();
            let map = running.get_or_insert_default();
            let Some(before) = map.get(&key).cloned() else {
                let finished = Arc::<Finished>::default();
                map.insert(key.clone(), finished.clone());
                return Turn { key, finished };
            };
            drop(running);
            let mut done = before.done.lock();
            while !*done {
                before.changed.wait(&mut done);
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(map) = RUNNING.lock().as_mut() {
            map.remove(&self.key);
        }
        *self.finished.done.lock() = true;
        self.finished.changed.notify_all();
    }
}

/// A save that goes on beside training, of [`save_async`](super::save_async).
///
/// Dropping it waits for the end of the save, and its error is lost then: call [`SaveHandle::wait`].
#[must_use = "wait() gives the error of the save"]
pub struct SaveHandle(Option<JoinHandle<Result<()>>>);

impl std::fmt::Debug for SaveHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SaveHandle")
            .field("finished", &self.is_finished())
            .finish()
    }
}

impl SaveHandle {
    /// Whether the save is done, or has failed.
    pub fn is_finished(&self) -> bool {
        self.0.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until the checkpoint is on the disk.
    ///
    /// # Errors
    /// What the save met on this rank, or on another; the checkpoint that was there before is there then.
    #[torsh_tensor::names_caller]
    pub fn wait(mut self) -> Result<()> {
        match self.0.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(TorshError::invalid(OP, "the thread of the save panicked")),
        }
    }
}

impl Drop for SaveHandle {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // Whoever wants the error waits.
            let _ = thread.join();
        }
    }
}

/// All that is left to do when every rank knows what it writes.
struct Job {
    dir: PathBuf,
    group: Option<ProcessGroup>,
    orders: Orders,
    pieces: Vec<ToWrite>,
    /// Why the copies could not be made: the others wait for this rank, and hear of it there.
    failed: Option<TorshError>,
    /// On rank 0.
    plan: Option<Plan>,
    world_size: usize,
    _turn: Turn,
}

/// A name that no other save has.
fn new_folder() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |t| t.as_nanos() as u64);
    let count = COUNT.fetch_add(1, Ordering::Relaxed) & 0xff;
    let process = std::process::id() & 0xff_ffff;
    format!("{FOLDER}{now:016x}{process:06x}{count:02x}")
}

fn is_folder_of_save(name: &str) -> bool {
    name.strip_prefix(FOLDER)
        .is_some_and(|rest| rest.len() == DIGITS && rest.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Removes what saves left that did not come to their end.
fn clean(dir: &Path) -> Result<()> {
    let current = match dir.join(INDEX).is_file() {
        // A file that cannot be read names a folder that must not go.
        true => match Index::open(dir) {
            Ok(index) => Some(index.folder),
            Err(_) => return Ok(()),
        },
        false => None,
    };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(io_error(dir, e)),
    };
    let unfinished = format!(".{INDEX}.");
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        // Whoever else removes it is welcome.
        if is_folder_of_save(name) && current.as_deref() != Some(name) {
            let _ = fs::remove_dir_all(entry.path());
        } else if name.starts_with(&unfinished) && name.ends_with(".tmp") {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// Agrees with the other ranks on who writes what.
fn prepare(group: Option<&ProcessGroup>, dir: &Path, state: &State, copy: bool) -> Result<Job> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (rank, world_size) = group.map_or((0, 1), |g| (g.rank(), g.size()));
    let turn = Turn::take(dir, rank);
    let built = state.sources().build(rank);
    let offer = match &built {
        Ok(built) => Ok(built.offer.clone()),
        Err(e) => Err(text(e)),
    };
    let offers = match group {
        None => Some(vec![offer]),
        Some(group) => group.gather_object(&offer, 0)?,
    };
    let mut planned = None;
    let orders: Option<Vec<std::result::Result<Orders, String>>> = offers.map(|offers| {
        let made = all_of(offers).and_then(plan).and_then(|plan| {
            // The folder is made before anyone writes, so that a wrong path is found at once.
            let folder = new_folder();
            fs::create_dir_all(dir)
                .map_err(|e| io_error(dir, e))
                .and_then(|()| clean(dir))
                .and_then(|()| {
                    let path = dir.join(&folder);
                    fs::create_dir(&path).map_err(|e| io_error(&path, e))
                })
                .map_err(|e| format!("rank 0: {}", text(&e)))?;
            Ok((plan, folder))
        });
        match made {
            Err(why) => vec![Err(why); world_size],
            Ok((plan, folder)) => {
                let tag = FIRST_TAG + 2 * (COUNT.fetch_add(1, Ordering::Relaxed) % (TAGS / 2));
                let order = |write: &Vec<usize>| {
                    Ok(Orders {
                        folder: folder.clone(),
                        tag,
                        write: write.clone(),
                    })
                };
                let all = plan.orders.iter().map(order).collect();
                planned = Some(plan);
                all
            }
        }
    });
    let own = match group {
        None => orders.and_then(|o| o.into_iter().next()),
        Some(group) => Some(group.scatter_object(orders.as_deref(), 0)?),
    };
    let built = built?;
    let orders = own
        .unwrap_or_else(|| Err("there are no orders".into()))
        .map_err(|why| TorshError::invalid(OP, why))?;
    let mut pieces = Vec::with_capacity(orders.write.len());
    for &number in &orders.write {
        let (offer, tensor) = (&built.offer.tensors[number], &built.tensors[number]);
        pieces.push(ToWrite {
            name: offer.name.clone(),
            offset: offer.offset.clone(),
            whole: offer.global == offer.shape,
            tensor: tensor.clone(),
        });
    }
    let mut job = Job {
        dir: dir.to_path_buf(),
        group: group.cloned(),
        orders,
        pieces,
        failed: None,
        plan: planned,
        world_size,
        _turn: turn,
    };
    if copy {
        job.failed = job.copy().err();
    }
    Ok(job)
}

/// What all ranks have, or what the first one that failed says.
fn all_of(
    offers: Vec<std::result::Result<Offer, String>>,
) -> std::result::Result<Vec<Offer>, String> {
    let numbered = offers.into_iter().enumerate();
    numbered
        .map(|(rank, offer)| offer.map_err(|why| format!("rank {rank}: {why}")))
        .collect()
}

/// Sends an object beside other communication: its length, then its bytes.
fn send<T: Serialize>(group: &ProcessGroup, object: &T, to: usize, tag: u32) -> Result<()> {
    let bytes = serde_json::to_vec(object).map_err(|e| TorshError::invalid(OP, e.to_string()))?;
    let length = Tensor::from_slice(&[bytes.len() as i64], [1], DType::I64, Device::Cpu)?;
    group.send_tagged(&length, to, tag)?;
    let bytes = Tensor::from_bytes(&bytes, DType::U8, [bytes.len()])?;
    group.send_tagged(&bytes, to, tag + 1)
}

fn receive<T: DeserializeOwned>(group: &ProcessGroup, from: usize, tag: u32) -> Result<T> {
    let length = Tensor::zeros([1], DType::I64, Device::Cpu)?;
    group.recv_tagged_(&length, from, tag)?;
    let n = usize::try_from(length.item::<i64>()?).unwrap_or(0);
    let bytes = Tensor::zeros([n], DType::U8, Device::Cpu)?;
    group.recv_tagged_(&bytes, from, tag + 1)?;
    serde_json::from_slice(&bytes.to_bytes()?).map_err(|e| TorshError::invalid(OP, e.to_string()))
}

impl Job {
    /// Gives the tensors memory of their own, so that training can go on.
    fn copy(&mut self) -> Result<()> {
        // Two names of one tensor need one copy.
        let mut copies: Vec<(Tensor, Tensor)> = Vec::new();
        for piece in &mut self.pieces {
            let old = piece.tensor.clone();
            let known = copies.iter().find(|(o, _)| {
                o.shares_storage(&old)
                    && o.storage_offset() == old.storage_offset()
                    && o.dims() == old.dims()
                    && o.stride() == old.stride()
            });
            let copy = match known {
                Some((_, copy)) => copy.clone(),
                None if old.device() == Device::Cpu => old.contiguous()?.detach().copy()?,
                None => old.to_device(Device::Cpu)?,
            };
            copies.push((old, copy.clone()));
            piece.tensor = copy;
        }
        Ok(())
    }

    /// Writes, waits for the others, and lets rank 0 put the index in its place.
    fn run(mut self) -> Result<()> {
        let rank = self.group.as_ref().map_or(0, ProcessGroup::rank);
        let folder = self.dir.join(&self.orders.folder);
        let file = write::file_name(rank, self.world_size);
        let pieces = std::mem::take(&mut self.pieces);
        let written = match self.failed.take() {
            Some(e) => Err(e),
            None => write::write(&folder, &file, pieces),
        };
        let report = written.as_ref().map_err(text).cloned();
        let Some(group) = self.group.clone() else {
            let end = written.and_then(|w| self.commit(vec![w]));
            return self.end(end);
        };
        let tag = self.orders.tag;
        if rank > 0 {
            send(&group, &report, 0, tag)?;
            let outcome: std::result::Result<(), String> = receive(&group, 0, tag)?;
            // A rank's own error says most.
            written?;
            return outcome.map_err(|why| TorshError::invalid(OP, why));
        }
        let mut reports = vec![report];
        let mut lost = None;
        for from in 1..group.size() {
            match receive(&group, from, tag) {
                Ok(report) => reports.push(report),
                Err(e) => {
                    lost = Some(e);
                    break;
                }
            }
        }
        let end = match lost {
            Some(e) => Err(e),
            None => all_written(reports)
                .map_err(|why| TorshError::invalid(OP, why))
                .and_then(|all| self.commit(all)),
        };
        let end = match written {
            // As on the other ranks, its own error first.
            Err(own) => Err(own),
            Ok(_) => end,
        };
        let outcome = end
            .as_ref()
            .map_err(|e| format!("rank 0: {}", text(e)))
            .copied();
        let mut sent = Ok(());
        for to in 1..group.size() {
            sent = sent.and(send(&group, &outcome, to, tag));
        }
        self.end(end).and(sent)
    }

    /// Removes the files of a save that failed.
    fn end(&self, end: Result<()>) -> Result<()> {
        if end.is_err() {
            // The first error is the one to report; the next save cleans up as well.
            let _ = fs::remove_dir_all(self.dir.join(&self.orders.folder));
        }
        end
    }

    /// Puts the new index in the place of the old one, then removes the old one's files.
    fn commit(&mut self, written: Vec<Written>) -> Result<()> {
        let plan = self.plan.take();
        let plan = plan.ok_or_else(|| TorshError::invalid(OP, "rank 0 has no plan"))?;
        let folder = self.dir.join(&self.orders.folder);
        for rank in &written {
            let path = folder.join(&rank.file);
            let seen = fs::metadata(&path).map(|m| m.len()).unwrap_or(0);
            if seen != rank.bytes {
                return Err(TorshError::invalid(
                    OP,
                    format!(
                        "{} was written with {} bytes, and rank 0 sees {seen}",
                        path.display(),
                        rank.bytes
                    ),
                )
                .with_hint("all ranks have to save to one folder of a shared file system"));
            }
        }
        let (files, mut pieces) = write::gather(written);
        let tensors: BTreeMap<String, TensorIndex> = plan
            .tensors
            .into_iter()
            .map(|(name, (dtype, shape))| {
                let pieces = pieces.remove(&name).unwrap_or_default();
                let tensor = TensorIndex {
                    dtype,
                    shape,
                    pieces,
                };
                (name, tensor)
            })
            .collect();
        let index = Index {
            format: FORMAT.into(),
            version: VERSION,
            world_size: self.world_size,
            folder: self.orders.folder.clone(),
            block: BLOCK,
            files,
            parts: plan.parts,
            tensors,
        };
        index.check().map_err(|why| TorshError::invalid(OP, why))?;
        let text =
            serde_json::to_vec(&index).map_err(|e| TorshError::invalid(OP, e.to_string()))?;
        write::sync_folder(&self.dir)?;
        write_bytes(self.dir.join(INDEX), &text)?;
        clean(&self.dir)
    }
}

fn all_written(
    reports: Vec<std::result::Result<Written, String>>,
) -> std::result::Result<Vec<Written>, String> {
    let numbered = reports.into_iter().enumerate();
    numbered
        .map(|(rank, report)| report.map_err(|why| format!("rank {rank}: {why}")))
        .collect()
}

#[track_caller]
pub(super) fn save(group: Option<&ProcessGroup>, dir: &Path, state: &State) -> Result<()> {
    prepare(group, dir, state, false)?.run()
}

#[track_caller]
pub(super) fn save_async(
    group: Option<&ProcessGroup>,
    dir: &Path,
    state: &State,
) -> Result<SaveHandle> {
    let job = prepare(group, dir, state, true)?;
    let thread = std::thread::Builder::new()
        .name("torsh-checkpoint".into())
        .spawn(move || job.run())
        .map_err(|e| io_error(dir, e))?;
    Ok(SaveHandle(Some(thread)))
}
