//! The position of a loader, which can be saved and restored.

use std::collections::BTreeMap;

use torsh_core::random::{Generator, LocalGenerator, default_generator};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use crate::workers::Plan;

/// What the order of an epoch was drawn from.
#[derive(Clone, Default)]
pub(crate) struct Sources {
    /// The loader's generator, where it has one of its own.
    pub(crate) generator: Option<Vec<u8>>,
    /// The sampler's state.
    pub(crate) sampler: Vec<u8>,
}

/// A position in an epoch.
#[derive(Clone)]
pub(crate) struct Position {
    /// What the order was drawn from.
    pub(crate) from: Sources,
    /// The default generator when it was.
    pub(crate) default: Vec<u8>,
    /// The seed of what the dataset draws.
    pub(crate) seed: u64,
    /// Tells another order from the one it was.
    pub(crate) checksum: u64,
    /// How many batches were given.
    pub(crate) given: usize,
    /// How many processes shared the data.
    pub(crate) ranks: usize,
}

/// What a loader's state dict says.
pub(crate) struct Saved {
    /// What the orders to come are drawn from.
    pub(crate) now: Sources,
    /// The seed and the epochs of persistent workers.
    pub(crate) persistent: Option<(u64, u64)>,
    /// Where in an epoch the loader is; `None` between two.
    pub(crate) position: Option<Position>,
}

/// A number that another plan hardly has (FNV-1a).
pub(crate) fn checksum(plan: &Plan) -> u64 {
    plan.order
        .iter()
        .chain(&plan.ends)
        .fold(0xcbf2_9ce4_8422_2325, |h, &v| {
            (h ^ v as u64).wrapping_mul(0x0100_0000_01b3)
        })
}

pub(crate) fn number(v: u64) -> Result<Tensor> {
    Tensor::from_slice(&[v as i64], (), DType::I64, Device::Cpu)
}

pub(crate) fn bytes(v: &[u8]) -> Result<Tensor> {
    Tensor::from_slice(v, [v.len()], DType::U8, Device::Cpu)
}

/// Sets the generator that a loader may have of its own to what the saved loader's was.
pub(crate) fn restore_own(own: Option<&Generator>, saved: Option<&[u8]>) -> Result<()> {
    match (own, saved) {
        (Some(g), Some(state)) => restore(g, state),
        (None, None) => Ok(()),
        (Some(_), None) => Err(refused(
            "the loader has a generator of its own, the saved one had none".to_string(),
        )),
        (None, Some(_)) => Err(refused(
            "the saved loader had a generator of its own, this one has none".to_string(),
        )),
    }
}

impl Sources {
    fn save(&self, prefix: &str, into: &mut BTreeMap<String, Tensor>) -> Result<()> {
        if let Some(g) = &self.generator {
            into.insert(format!("{prefix}generator"), bytes(g)?);
        }
        if !self.sampler.is_empty() {
            into.insert(format!("{prefix}sampler"), bytes(&self.sampler)?);
        }
        Ok(())
    }

    fn load(prefix: &str, from: &Reader<'_>) -> Result<Sources> {
        let generator = from.bytes(&format!("{prefix}generator"))?;
        Ok(Sources {
            generator,
            sampler: from.bytes(&format!("{prefix}sampler"))?.unwrap_or_default(),
        })
    }
}

impl Saved {
    pub(crate) fn to_tensors(&self) -> Result<BTreeMap<String, Tensor>> {
        let mut out = BTreeMap::new();
        self.now.save("", &mut out)?;
        if let Some((seed, epochs)) = self.persistent {
            out.insert("persistent.seed".to_string(), number(seed)?);
            out.insert("persistent.epochs".to_string(), number(epochs)?);
        }
        if let Some(p) = &self.position {
            p.from.save("epoch.", &mut out)?;
            out.insert("epoch.default".to_string(), bytes(&p.default)?);
            out.insert("epoch.seed".to_string(), number(p.seed)?);
            out.insert("epoch.checksum".to_string(), number(p.checksum)?);
            out.insert("epoch.batches".to_string(), number(p.given as u64)?);
            if p.ranks > 1 {
                out.insert("epoch.ranks".to_string(), number(p.ranks as u64)?);
            }
        }
        Ok(out)
    }

    pub(crate) fn from_tensors(state: &BTreeMap<String, Tensor>) -> Result<Saved> {
        let r = Reader(state);
        let known = |name: &str| {
            let name = name.strip_prefix("epoch.").unwrap_or(name);
            [
                "generator",
                "sampler",
                "default",
                "seed",
                "checksum",
                "batches",
                "ranks",
                "persistent.seed",
                "persistent.epochs",
            ]
            .contains(&name)
        };
        r.only(known)?;
        let persistent = match r.number("persistent.seed")? {
            Some(seed) => Some((seed, r.need("persistent.epochs")?)),
            None => None,
        };
        let position = match r.number("epoch.batches")? {
            Some(given) => Some(Position {
                from: Sources::load("epoch.", &r)?,
                default: r
                    .bytes("epoch.default")?
                    .ok_or_else(|| refused("`epoch.default` is missing".to_string()))?,
                seed: r.need("epoch.seed")?,
                checksum: r.need("epoch.checksum")?,
                given: given as usize,
                ranks: r.number("epoch.ranks")?.map_or(1, |n| n.max(1) as usize),
            }),
            None => None,
        };
        Ok(Saved {
            now: Sources::load("", &r)?,
            persistent,
            position,
        })
    }
}

/// Reads the parts of a state.
pub(crate) struct Reader<'a>(pub(crate) &'a BTreeMap<String, Tensor>);

impl Reader<'_> {
    /// An error where a name is not known.
    pub(crate) fn only(&self, known: impl Fn(&str) -> bool) -> Result<()> {
        match self.0.keys().find(|name| !known(name)) {
            Some(name) => Err(refused(format!("`{name}` is no part of a loader's state"))),
            None => Ok(()),
        }
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>> {
        let Some(t) = self.0.get(name) else {
            return Ok(None);
        };
        if t.dtype() != DType::I64 || t.numel() != 1 {
            return Err(refused(format!(
                "`{name}` must be one int64, got {}",
                t.describe()
            )));
        }
        Ok(Some(t.item::<i64>()? as u64))
    }

    pub(crate) fn need(&self, name: &str) -> Result<u64> {
        self.number(name)?
            .ok_or_else(|| refused(format!("`{name}` is missing")))
    }

    pub(crate) fn bytes(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let Some(t) = self.0.get(name) else {
            return Ok(None);
        };
        if t.dtype() != DType::U8 || t.ndim() != 1 {
            return Err(refused(format!(
                "`{name}` must be bytes, got {}",
                t.describe()
            )));
        }
        Ok(Some(t.to_vec::<u8>()?))
    }
}

pub(crate) fn refused(why: String) -> TorshError {
    TorshError::invalid("DataLoader.load_state_dict", why)
}

/// Sets a generator to a saved state.
pub(crate) fn restore(generator: &Generator, state: &[u8]) -> Result<()> {
    generator.set_state(state).map_err(refused)
}

/// Runs `f` with a default generator in a saved state; the program's goes on as it is.
pub(crate) fn with_default<R>(state: &[u8], f: impl FnOnce() -> Result<R>) -> Result<R> {
    let stand_in = LocalGenerator::new(0);
    restore(stand_in.generator(), state)?;
    stand_in.scope(f)
}

/// The default generator's state.
pub(crate) fn default_state() -> Vec<u8> {
    default_generator().get_state()
}
