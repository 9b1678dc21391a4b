//! Loading: the parts of a state that this rank has, from whatever ranks wrote them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value as Json, json};
use torsh_nn::StateDict;
use torsh_serialize::{Dict, Value};
use torsh_tensor::{Device, Result, Tensor, TorshError};
use torsh_train::{Checkpoint, Stateful};

use super::index::{INDEX, Index, Kind, PartIndex, broken};
use super::piece::Piece;
use super::read::Reader;
use super::state::{Layout, Loaded, Sources, State};
use super::torch_dcp;
use super::tree::{self, LOCAL, below};
use crate::group::ProcessGroup;

/// Opens a checkpoint of this crate, or one of PyTorch.
#[track_caller]
pub(super) fn open(dir: &Path) -> Result<Reader> {
    if !dir.join(INDEX).exists() && torch_dcp::is_checkpoint(dir) {
        return torch_dcp::open(dir);
    }
    Ok(Reader::new(dir, Index::open(dir)?))
}

/// The part's state that a rank takes.
fn state_of(part: &PartIndex, rank: usize) -> Option<&Json> {
    if part.kind != Kind::PerRank {
        return part.states.values().next();
    }
    part.states.get(&rank)
}

/// The whole tensors of a value.
fn whole(reader: &Reader, state: &Json) -> Result<Value> {
    tree::decode(state, &mut |kind, name| match kind {
        LOCAL => Err(each_ranks_own(name)),
        _ => reader.tensor(name, None),
    })
}

#[cold]
fn each_ranks_own(name: &str) -> TorshError {
    TorshError::invalid(
        "checkpoint::load",
        format!(
            "{name} belongs to the pieces of the ranks that saved it, and is of another shape than they: it loads only at \
             the same world size and sharding"
        ),
    )
    .with_hint("leave the optimizer out of the state to load the model alone")
}

/// A state that a part is restored from.
struct Fixed(Value);

impl Stateful for Fixed {
    #[track_caller]
    fn save_state(&self) -> Result<Value> {
        Ok(self.0.clone())
    }

    #[torsh_tensor::names_caller]
    fn load_state(&self, _: &Value) -> Result<()> {
        Err(TorshError::invalid(
            "checkpoint",
            "a state that is read does not change",
        ))
    }
}

/// The part of a tensor that a piece is, which `part` gives unless it is empty. A tensor of another shape than the
/// piece's whole is refused.
fn part_of(
    name: &str,
    there: &[usize],
    piece: &Piece,
    part: impl FnOnce() -> Result<Tensor>,
) -> Result<Tensor> {
    if there != piece.global_shape() {
        return Err(TorshError::shape(
            "checkpoint::load",
            format!(
                "{name} is {there:?} in the checkpoint and {:?} here",
                piece.global_shape()
            ),
        ));
    }
    match piece.tensor().numel() {
        0 => Tensor::empty(piece.tensor().dims(), piece.dtype(), Device::Cpu),
        _ => part(),
    }
}

/// The part of a whole tensor that a piece is.
fn narrowed(name: &str, whole: &Tensor, piece: &Piece) -> Result<Tensor> {
    part_of(name, whole.dims(), piece, || {
        let mut part = whole.clone();
        let sizes = piece.offset().iter().zip(piece.tensor().dims());
        for (d, (&start, &n)) in sizes.enumerate() {
            part = part.narrow(d, start, n)?;
        }
        Ok(part)
    })
}

struct Loader<'s, 'a> {
    reader: &'s Reader,
    sources: Sources<'s, 'a>,
    layout: Layout,
    /// The states as they are now.
    own: Checkpoint,
    rank: usize,
    world_size: usize,
}

/// All that is to be restored, read before anything is changed.
struct Read {
    states: Vec<(String, Fixed)>,
    pieces: Vec<(Piece, Tensor)>,
    loaded: Loaded,
}

impl Loader<'_, '_> {
    fn read(&self) -> Result<Read> {
        let index = &self.reader.index;
        let mut out = Read {
            states: Vec::new(),
            pieces: Vec::new(),
            loaded: Loaded {
                values: BTreeMap::new(),
                world_size: index.world_size,
            },
        };
        for part in index.parts.iter().filter(|p| p.kind == Kind::Value) {
            if let Some(state) = part.states.values().next()
                && let Some(plain) = tree::to_plain(&whole(self.reader, state)?)
            {
                out.loaded.values.insert(part.name.clone(), plain);
            }
        }
        for (name, kind) in self.sources.parts() {
            let state = match kind {
                Kind::Value => continue,
                Kind::Pieces => {
                    for piece in self.sources.pieces(name)? {
                        let tensor = self.piece(&below(name, piece.name()), &piece)?;
                        out.pieces.push((piece, tensor));
                    }
                    continue;
                }
                Kind::Model => self.model(name)?,
                Kind::Optimizer => self.optimizer(name)?,
                Kind::Shared | Kind::PerRank => {
                    let part = index.part(&self.reader.dir, name)?;
                    let n = part.states.len().max(1);
                    match (state_of(part, self.rank), name) {
                        (Some(state), _) => whole(self.reader, state)?,
                        // Two ranks must not draw the same numbers.
                        (None, "rng") => self.own(name)?.clone(),
                        (None, _) => match part.states.values().nth(self.rank % n) {
                            Some(state) => whole(self.reader, state)?,
                            None => return Err(self.damaged(name)),
                        },
                    }
                }
            };
            out.states.push((name.to_string(), Fixed(state)));
        }
        Ok(out)
    }

    fn own(&self, part: &str) -> Result<&Value> {
        self.own
            .part(part)
            .ok_or_else(|| TorshError::invalid("checkpoint::load", format!("no state of `{part}`")))
    }

    #[cold]
    fn damaged(&self, part: &str) -> TorshError {
        broken(
            &self.reader.dir,
            format!("the index is damaged: the state of `{part}` is none"),
        )
    }

    /// The part of a tensor that a piece is.
    fn piece(&self, name: &str, piece: &Piece) -> Result<Tensor> {
        part_of(name, &self.reader.entry(name)?.shape, piece, || {
            let place = (piece.offset(), piece.tensor().dims());
            self.reader.tensor(name, Some(place))
        })
    }

    /// The tensors that this rank's model has.
    fn model(&self, part: &str) -> Result<Value> {
        let mut dict = Dict::new();
        let all = self.own(part)?.as_dict()?;
        let there = |key: &Value| {
            let name = key.as_str().map(|key| below(part, key));
            name.is_ok_and(|name| self.reader.index.tensors.contains_key(&name))
        };
        let upgraded = match all.iter().all(|(key, _)| there(key)) {
            true => StateDict::new(),
            false => self.upgraded(part)?,
        };
        for (key, own) in all.iter() {
            let (key, own) = (key.as_str()?, own.as_tensor()?);
            let name = below(part, key);
            let tensor = match (upgraded.get(key), self.layout.find(own, &name)) {
                (Some(whole), Some(piece)) => narrowed(&name, whole, piece)?,
                (Some(whole), None) => whole.clone(),
                (None, Some(piece)) => self.piece(&name, piece)?,
                (None, None) => self.reader.tensor(&name, None)?,
            };
            dict.insert(key, tensor)?;
        }
        if self.sources.is_lazy(part) && !upgraded.is_empty() {
            for (key, tensor) in upgraded.iter() {
                if dict.get(key).is_none() {
                    dict.insert(key, tensor.clone())?;
                }
            }
        } else if self.sources.is_lazy(part) {
            let start = format!("{part}.");
            for name in self.reader.index.tensors.keys() {
                if let Some(key) = name.strip_prefix(&start)
                    && dict.get(key).is_none()
                {
                    dict.insert(key, self.reader.tensor(name, None)?)?;
                }
            }
        }
        Ok(Value::Dict(dict))
    }

    /// All tensors that the checkpoint has of a model, in the form that the model has here: an older one has other names.
    fn upgraded(&self, part: &str) -> Result<StateDict> {
        let start = format!("{part}.");
        let names = self.reader.index.tensors.keys();
        let whole = names
            .filter_map(|name| Some((name.strip_prefix(&start)?, name)))
            .map(|(key, name)| Ok((key.to_string(), self.reader.tensor(name, None)?)))
            .collect::<Result<Vec<_>>>()?;
        self.sources.upgraded(part, &StateDict::from_iter(whole))
    }

    /// The states of this rank's parameters, under their numbers here.
    fn optimizer(&self, part: &str) -> Result<Value> {
        let index = self.reader.index.part(&self.reader.dir, part)?;
        let saved = state_of(index, self.rank).ok_or_else(|| self.damaged(part))?;
        let field = |of: &'_ Json, key: &str| tree::entry(of, &json!(key)).cloned();
        let states = field(saved, "state").ok_or_else(|| self.damaged(part))?;
        let groups = field(saved, "param_groups");
        let groups = groups.as_ref().and_then(Json::as_array);
        let groups = groups.ok_or_else(|| self.damaged(part))?;
        let names = self.sources.parameter_names(part);
        let own_groups = self.own(part)?.get("param_groups")?.as_list()?;
        let refuse = |why: String| {
            TorshError::invalid("checkpoint::load", format!("optimizer `{part}`: {why}"))
        };
        if groups.len() != own_groups.len() {
            return Err(refuse(format!(
                "it has {} groups here and {} in the checkpoint",
                own_groups.len(),
                groups.len()
            )));
        }
        let mut state = Dict::new();
        let mut param_groups = Vec::new();
        for (own, group) in own_groups.iter().zip(groups) {
            let members: Vec<Json> = match field(group, "params") {
                Some(Json::Array(list)) => list,
                Some(dict) => tree::entries(&dict).map(|(k, _)| k.clone()).collect(),
                None => return Err(self.damaged(part)),
            };
            let by_number = members.first().is_some_and(Json::is_number);
            let numbers = own.get("params")?.as_list()?;
            for number in numbers {
                let i = usize::try_from(number.as_int()?).unwrap_or(usize::MAX);
                let key = match names.keys.get(i) {
                    Some(key) if !by_number => key.clone(),
                    _ => json!(i),
                };
                if !members.contains(&key) {
                    let e = refuse(format!("the checkpoint does not know its parameter {key}"));
                    return Err(match by_number || key.is_string() {
                        true => e,
                        // Saved by names, which only the model tells.
                        false => e.with_hint("give the state the model too: State::model"),
                    });
                }
                let Some(remembered) = tree::entry(&states, &key) else {
                    continue;
                };
                let piece = names.piece(&self.layout, i);
                let value = tree::decode(remembered, &mut |kind, name| {
                    if kind == LOCAL {
                        return self.local(part, name);
                    }
                    match piece {
                        Some(p) if self.reader.entry(name)?.shape == p.global_shape() => {
                            self.piece(name, p)
                        }
                        _ => self.reader.tensor(name, None),
                    }
                })?;
                state.insert(number.clone(), value)?;
            }
            // This crate keeps the options apart from the parameters, PyTorch beside them.
            let options = field(group, "options").unwrap_or_else(|| group.clone());
            let mut options = match whole(self.reader, &options)? {
                Value::Dict(options) => options,
                _ => return Err(self.damaged(part)),
            };
            options.insert("params", Value::List(numbers.to_vec()))?;
            param_groups.push(Value::Dict(options));
        }
        Ok(Value::from([
            ("state", Value::Dict(state)),
            ("param_groups", Value::List(param_groups)),
        ]))
    }

    /// A state of a piece that only its own rank can use.
    fn local(&self, part: &str, name: &str) -> Result<Tensor> {
        let rest = name.strip_prefix(part).unwrap_or(name);
        if self.reader.index.world_size != self.world_size {
            return Err(each_ranks_own(name));
        }
        self.reader
            .tensor(&format!("{part}@{}{rest}", self.rank), None)
    }
}

/// An error's text without its place.
pub(super) fn text(e: &TorshError) -> String {
    e.to_string()
}

/// Fails on all ranks where one failed: its own error there, what the first one said elsewhere.
pub(super) fn agree<T>(
    group: Option<&ProcessGroup>,
    op: &'static str,
    own: Result<T>,
) -> Result<T> {
    let Some(group) = group else {
        return own;
    };
    let all: Vec<Option<String>> = group.all_gather_object(&own.as_ref().err().map(text))?;
    let own = own?;
    let failed = all.iter().enumerate();
    let mut failed = failed.filter_map(|(rank, e)| Some((rank, e.as_ref()?)));
    match failed.next() {
        None => Ok(own),
        Some((rank, why)) => Err(TorshError::invalid(
            op,
            format!("rank {rank} failed: {why}"),
        )),
    }
}

#[track_caller]
pub(super) fn load(group: Option<&ProcessGroup>, dir: &Path, state: &State) -> Result<Loaded> {
    let op = "checkpoint::load";
    let reader = match group {
        None => open(dir)?,
        // One rank reads the index, so that all see the same checkpoint while another job replaces it.
        Some(group) => {
            let read = (group.rank() == 0).then(|| {
                let opened = open(dir).map(|reader| reader.index);
                opened.map_err(|e| text(&e))
            });
            let index: std::result::Result<Index, String> =
                group.broadcast_object(read.as_ref(), 0)?;
            let index = index.map_err(|why| TorshError::invalid(op, format!("rank 0: {why}")))?;
            Reader::new(dir, index)
        }
    };
    let sources = state.sources();
    let (rank, world_size) = group.map_or((0, 1), |g| (g.rank(), g.size()));
    let read = (|| {
        let loader = Loader {
            reader: &reader,
            layout: sources.layout()?,
            own: sources.checkpoint()?,
            sources: state.sources(),
            rank,
            world_size,
        };
        loader.read()
    })();
    // Nothing is changed on any rank where one cannot.
    let read = agree(group, op, read)?;
    let restored = restore(&sources, &read);
    agree(group, op, restored)?;
    Ok(read.loaded)
}

fn restore(sources: &Sources, read: &Read) -> Result<()> {
    let mut parts = Checkpoint::builder();
    for (name, state) in &read.states {
        parts = parts.with(name, state);
    }
    sources.restore(&parts.build()?)?;
    for (piece, tensor) in &read.pieces {
        piece.tensor().detach().copy_(tensor)?;
    }
    Ok(())
}

#[track_caller]
pub(super) fn read_part(dir: &Path, name: &str) -> Result<Value> {
    let reader = open(dir)?;
    let part = reader.index.part(dir, name)?;
    let states: Vec<Value> = part
        .states
        .values()
        .map(|state| whole(&reader, state))
        .collect::<Result<_>>()?;
    Ok(match part.kind {
        Kind::PerRank => Value::List(states),
        _ => states.into_iter().next().unwrap_or(Value::None),
    })
}

#[track_caller]
pub(super) fn read_state_dict(dir: &Path) -> Result<StateDict> {
    let reader = open(dir)?;
    let index = &reader.index;
    let mut models = index.parts.iter().filter(|p| p.kind == Kind::Model);
    let named = index.parts.iter().find(|p| p.name == "model");
    let part = match (named, models.next(), models.next()) {
        (Some(part), ..) => Some(part),
        (None, Some(part), None) => Some(part),
        (None, None, _) => None,
        (None, Some(a), Some(b)) => {
            return Err(broken(
                dir,
                format!("it has several models, as `{}` and `{}`", a.name, b.name),
            )
            .with_hint("read one with read_part"));
        }
    };
    // Without a model, all tensors there are, by their names in the checkpoint.
    let start = part.map_or_else(String::new, |p| format!("{}.", p.name));
    let names = index.tensors.keys().filter_map(|name| {
        let key = name.strip_prefix(&start)?;
        Some((key.to_string(), name))
    });
    names
        .map(|(key, name)| Ok((key, reader.tensor(name, None)?)))
        .collect::<Result<Vec<_>>>()
        .map(StateDict::from_iter)
}
