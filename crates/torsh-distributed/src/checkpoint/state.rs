//! What a checkpoint is made of.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Value as Json, json};
use torsh_data::DataLoader;
use torsh_nn::module::upgraded_state_dict;
use torsh_nn::{Module, ModuleExt, Parameter, StateDict};
use torsh_optim::Optimizer;
use torsh_optim::lr_scheduler::LRScheduler;
use torsh_serialize::{Dict, Value};
use torsh_tensor::{Result, Tensor, TorshError};
use torsh_train::{Checkpoint, CheckpointBuilder, Stateful};

use super::index::Kind;
use super::piece::{Piece, Pieces};
use super::plan::{Offer, PartOffer, TensorOffer};
use super::tree::{self, LOCAL, TENSOR, below};
use crate::tensor_parallel::TensorParallel;

/// What a checkpoint saves and loads, by name: models, optimizers, schedulers, a loss scaler, random generators, loaders,
/// tensors in pieces and plain values.
///
/// A part is either the same on all ranks (models, optimizers, schedulers and what [`State::with`] takes), then it is
/// saved once; or each rank has its own ([`State::rng`], [`State::loader`], [`State::per_rank`]). Of models and
/// optimizers a rank may hold pieces, as after [`fully_shard`](crate::fully_shard); [`State::sharded`] says where others
/// belong. Optimizers' states are saved by the names
/// of their parameters, where a model of this state has them, so that another number of groups or stages can load them.
///
/// ```
/// use torsh_distributed::checkpoint::{self, State};
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_optim::{Adam, Optimizer};
///
/// let dir = std::env::temp_dir().join(format!("torsh-dist-state-{}", std::process::id()));
/// let net = Linear::new(2, 1);
/// let adam = Adam::new(net.parameters(), 0.5)?;
/// let state = State::new().model(&net).optimizer(&adam).value("epoch", 3);
/// checkpoint::save(&dir, &state)?;
///
/// adam.set_lr(0.1);
/// let loaded = checkpoint::load(&dir, &State::new().model(&net).optimizer(&adam))?;
/// assert_eq!(adam.get_lr(), 0.5);
/// assert_eq!(loaded.value("epoch").and_then(|v| v.as_u64()), Some(3));
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Default)]
pub struct State<'a> {
    builder: CheckpointBuilder<'a>,
    parts: Vec<(String, Source<'a>)>,
    layouts: Vec<Box<dyn Pieces + 'a>>,
}

type Named<'a> = Box<dyn Fn() -> Vec<(String, Parameter)> + 'a>;

/// What a model makes of a state dict of an older form.
type Upgrade<'a> = Box<dyn Fn(&StateDict) -> Result<StateDict> + 'a>;

enum Source<'a> {
    Model {
        named: Named<'a>,
        upgrade: Upgrade<'a>,
    },
    Optimizer(Box<dyn Fn() -> Vec<Tensor> + 'a>),
    Shared,
    PerRank,
    Pieces(&'a dyn Pieces),
    Value(Json),
}

impl Source<'_> {
    fn kind(&self) -> Kind {
        match self {
            Source::Model { .. } => Kind::Model,
            Source::Optimizer(_) => Kind::Optimizer,
            Source::Shared => Kind::Shared,
            Source::PerRank => Kind::PerRank,
            Source::Pieces(_) => Kind::Pieces,
            Source::Value(_) => Kind::Value,
        }
    }
}

impl std::fmt::Debug for State<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

impl<'a> State<'a> {
    /// No parts.
    pub fn new() -> State<'a> {
        State::default()
    }

    /// The names of the parts.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|(name, _)| name.as_str())
    }

    fn part(
        mut self,
        name: &str,
        source: Source<'a>,
        add: impl FnOnce(CheckpointBuilder<'a>) -> CheckpointBuilder<'a>,
    ) -> Self {
        self.builder = add(self.builder);
        self.parts.push((name.to_string(), source));
        self
    }

    /// A model, as `model`.
    ///
    /// Parameters that all ranks have whole have to be the same on all, which is checked by samples; of buffers, which may
    /// differ (as the running statistics of batch norm), rank 0's are saved.
    #[must_use]
    pub fn model<M: Module + ?Sized>(self, model: &'a M) -> Self {
        self.model_named("model", model)
    }

    /// A model under a name, where there are several. A rank may have other parameters of it than the others, as a stage
    /// of a pipeline has.
    #[must_use]
    pub fn model_named<M: Module + ?Sized>(self, name: &str, model: &'a M) -> Self {
        let source = Source::Model {
            named: Box::new(move || model.named_parameters()),
            upgrade: Box::new(move |from| upgraded_state_dict(model, from)),
        };
        self.part(name, source, |b| b.model_named(name, model))
    }

    /// An optimizer, as `optimizer`.
    #[must_use]
    pub fn optimizer<O: Optimizer + ?Sized>(self, optimizer: &'a O) -> Self {
        self.optimizer_named("optimizer", optimizer)
    }

    /// An optimizer under a name, where there are several.
    #[must_use]
    pub fn optimizer_named<O: Optimizer + ?Sized>(self, name: &str, optimizer: &'a O) -> Self {
        let source = Source::Optimizer(Box::new(move || optimizer.parameters()));
        self.part(name, source, |b| b.optimizer_named(name, optimizer))
    }

    /// A scheduler, as `scheduler`.
    #[must_use]
    pub fn scheduler<S: LRScheduler + ?Sized>(self, scheduler: &'a S) -> Self {
        self.scheduler_named("scheduler", scheduler)
    }

    /// A scheduler under a name, where there are several.
    #[must_use]
    pub fn scheduler_named<S: LRScheduler + ?Sized>(self, name: &str, scheduler: &'a S) -> Self {
        self.part(name, Source::Shared, |b| b.scheduler_named(name, scheduler))
    }

    /// A gradient scaler, as `scaler`.
    #[must_use]
    pub fn scaler<S: Stateful + ?Sized>(self, scaler: &'a S) -> Self {
        self.with("scaler", scaler)
    }

    /// Each rank's default random generator, as `rng`; it is restored after all other parts. At a larger world size the
    /// ranks that were not there keep theirs as they are: seed them before.
    #[must_use]
    pub fn rng(self) -> Self {
        self.part("rng", Source::PerRank, CheckpointBuilder::rng)
    }

    /// Each rank's loader and where it is in its epoch, as `loader`. At another world size rank `r` takes the place of
    /// rank `r` modulo the world size of the save.
    #[must_use]
    pub fn loader<D: torsh_data::Dataset, C>(self, loader: &'a DataLoader<D, C>) -> Self {
        self.per_rank("loader", loader)
    }

    /// Anything else under a name, which is the same on all ranks.
    #[must_use]
    pub fn with<S: Stateful + ?Sized>(self, name: &str, part: &'a S) -> Self {
        self.part(name, Source::Shared, |b| b.with(name, part))
    }

    /// Anything else under a name, of which each rank has its own, as a [`Generator`](torsh_core::Generator). At another
    /// world size rank `r` takes that of rank `r` modulo the world size of the save.
    #[must_use]
    pub fn per_rank<S: Stateful + ?Sized>(self, name: &str, part: &'a S) -> Self {
        self.part(name, Source::PerRank, |b| b.with(name, part))
    }

    /// Where pieces belong that this state's models hold. Those of [`fully_shard`](crate::fully_shard) are known by
    /// themselves; this is for others. Optimizer states of a piece's shape are pieces of the same place.
    ///
    /// ```
    /// use torsh_distributed::{checkpoint::{self, Piece, State}, spawn};
    /// use torsh_nn::Linear;
    /// use torsh_tensor::tensor;
    ///
    /// let dir = std::env::temp_dir().join(format!("torsh-dist-sharded-{}", std::process::id()));
    /// spawn(2, |g| {
    ///     // Each rank holds one row of a weight of two.
    ///     let row = Linear::builder(2, 1).bias(false).build()?;
    ///     row.weight.detach().fill_(g.rank() as f64)?;
    ///     let layout = vec![Piece::new("weight", [2, 2], [g.rank(), 0], row.weight.tensor())?];
    ///     checkpoint::save_in(&g, &dir, &State::new().model(&row).sharded(&layout))
    /// })?;
    /// let whole = checkpoint::read_state_dict(&dir)?;
    /// assert_eq!(whole["weight"], tensor![[0.0, 0.0], [1.0, 1.0]]);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn sharded<P: Pieces>(mut self, layout: &'a P) -> Self {
        self.layouts.push(Box::new(layout));
        self
    }

    /// Where the pieces belong of a model that [`parallelize_module`](crate::tensor_parallel::parallelize_module) divided,
    /// also where [`fully_shard`](crate::fully_shard) divided it further.
    ///
    /// ```
    /// use torsh_distributed::tensor_parallel::parallelize_module;
    /// use torsh_distributed::{checkpoint::{self, State}, plan, spawn};
    /// use torsh_nn::{Linear, sequential};
    ///
    /// let dir = std::env::temp_dir().join(format!("torsh-dist-tp-{}", std::process::id()));
    /// spawn(2, |g| {
    ///     let mut net = sequential![Linear::new(4, 2)];
    ///     let tp = parallelize_module(&mut net, &g, &plan![("0", RowParallel)])?;
    ///     checkpoint::save_in(&g, &dir, &State::new().model(&net).tensor_parallel(&net, &tp))
    /// })?;
    /// assert_eq!(checkpoint::read_state_dict(&dir)?["0.weight"].dims(), [2, 4]);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn tensor_parallel<M: Module + ?Sized>(
        mut self,
        model: &'a M,
        cuts: &'a TensorParallel,
    ) -> Self {
        self.layouts.push(Box::new(Divided { model, cuts }));
        self
    }

    /// Tensors in pieces under a name, as those of [`ShardedTensor`](crate::ShardedTensor)s that [`Piece::of_sharded`] gives;
    /// loading writes into their parts.
    ///
    /// ```
    /// use torsh_distributed::{checkpoint::{self, Piece, State}, spawn};
    /// use torsh_tensor::{DType, Device, Tensor, tensor};
    ///
    /// let dir = std::env::temp_dir().join(format!("torsh-dist-tensors-{}", std::process::id()));
    /// spawn(2, |g| {
    ///     let own = tensor![g.rank() as f32, 5.0];
    ///     let pieces = vec![Piece::new("table", [4], [2 * g.rank()], &own)?];
    ///     checkpoint::save_in(&g, &dir, &State::new().tensors("data", &pieces))
    /// })?;
    /// // All of it in one process.
    /// let whole = Tensor::zeros([4], DType::F32, Device::Cpu)?;
    /// let pieces = vec![Piece::whole("table", &whole)];
    /// checkpoint::load(&dir, &State::new().tensors("data", &pieces))?;
    /// assert_eq!(whole, tensor![0.0, 5.0, 1.0, 5.0]);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn tensors<P: Pieces>(mut self, name: &str, tensors: &'a P) -> Self {
        self.parts.push((name.to_string(), Source::Pieces(tensors)));
        self
    }

    /// A value under a name, the same on all ranks, which [`Loaded::value`] gives back.
    #[must_use]
    pub fn value(mut self, name: &str, value: impl Into<Json>) -> Self {
        self.parts
            .push((name.to_string(), Source::Value(value.into())));
        self
    }

    pub(super) fn sources(&self) -> Sources<'_, 'a> {
        Sources { state: self }
    }
}

/// A model that tensor parallel divided.
struct Divided<'a, M: ?Sized> {
    model: &'a M,
    cuts: &'a TensorParallel,
}

impl<M: Module + ?Sized> Pieces for Divided<'_, M> {
    fn pieces(&self) -> Result<Vec<Piece>> {
        let mut out = Vec::new();
        for (name, p) in self.model.named_parameters() {
            let piece = match Piece::of_parameter(&name, &p)? {
                Some(piece) => piece,
                None => Piece::whole(name.as_str(), p.tensor()),
            };
            // All ranks have equal shares.
            let group = self.cuts.group();
            out.push(match self.cuts.sharded_dim(&name) {
                Some(dim) => piece.within_share(dim, group.rank(), group.size())?,
                None => piece,
            });
        }
        Ok(out)
    }
}

/// What [`load`](super::load) gives back besides the state of the parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    pub(super) values: BTreeMap<String, Json>,
    pub(super) world_size: usize,
}

impl Loaded {
    /// The value that was saved under a name.
    pub fn value(&self, name: &str) -> Option<&Json> {
        self.values.get(name)
    }

    /// How many ranks saved the checkpoint.
    pub fn world_size(&self) -> usize {
        self.world_size
    }
}

/// The pieces of this rank, found by their tensors.
pub(super) struct Layout {
    pieces: Vec<Piece>,
    by_storage: HashMap<usize, Vec<usize>>,
}

/// A number that tells storages apart.
fn storage_of(tensor: &Tensor) -> usize {
    tensor
        .untyped_storage()
        .map_or(0, |s| torsh_core::Shared::as_ptr(s) as usize)
}

impl Layout {
    fn new(pieces: Vec<Piece>) -> Layout {
        let mut by_storage: HashMap<usize, Vec<usize>> = HashMap::new();
        for (i, piece) in pieces.iter().enumerate() {
            let list = by_storage.entry(storage_of(piece.tensor())).or_default();
            list.push(i);
        }
        Layout { pieces, by_storage }
    }

    /// The piece that a tensor is. Empty ones of one storage look alike: the name decides.
    pub(super) fn find(&self, tensor: &Tensor, name: &str) -> Option<&Piece> {
        let all = self.by_storage.get(&storage_of(tensor))?.iter();
        let same: Vec<&Piece> = all
            .map(|&i| &self.pieces[i])
            .filter(|p| {
                p.tensor().storage_offset() == tensor.storage_offset()
                    && p.tensor().dims() == tensor.dims()
            })
            .collect();
        let named = same.iter().find(|p| {
            let start = name.strip_suffix(p.name());
            start.is_some_and(|s| s.is_empty() || s.ends_with('.'))
        });
        named.or(same.first()).copied()
    }
}

/// The tensors of a rank in the order of its offers.
pub(super) struct Built {
    pub(super) offer: Offer,
    pub(super) tensors: Vec<Tensor>,
}

impl Built {
    fn add(&mut self, name: &str, tensor: &Tensor, piece: Option<&Piece>) {
        let zeros = vec![0; tensor.ndim()];
        let (global, offset) = match piece {
            Some(p) => (p.global_shape(), p.offset()),
            None => (tensor.dims(), zeros.as_slice()),
        };
        // An empty part is written by nobody.
        self.offer.tensors.push(TensorOffer {
            name: name.to_string(),
            dtype: tensor.dtype().name().to_string(),
            global: global.to_vec(),
            offset: offset.to_vec(),
            shape: tensor.dims().to_vec(),
            bytes: (tensor.numel() * tensor.dtype().size()) as u64,
            sample: sample(tensor).ok(),
            first: false,
        });
        self.tensors.push(tensor.detach());
    }

    /// Lets the first rank's copy of what was added last count.
    fn of_first_rank(&mut self) {
        if let Some(last) = self.offer.tensors.last_mut() {
            last.first = true;
        }
    }
}

/// A checksum of some bytes of a tensor: of its beginning, middle and end.
fn sample(tensor: &Tensor) -> Result<u32> {
    const MOST: usize = 1 << 10;
    let size = tensor.dtype().size();
    let tensor = tensor.detach();
    let tensor = match tensor.is_contiguous()? {
        true => tensor,
        false => tensor.contiguous()?,
    };
    let (all, first) = (tensor.numel() * size, tensor.storage_offset() * size);
    let n = MOST.min(all);
    let mut bytes = vec![0; 3 * n];
    for (at, to) in [0, (all - n) / 2, all - n]
        .into_iter()
        .zip(bytes.chunks_mut(n.max(1)))
    {
        tensor.untyped_storage()?.read(first + at, to)?;
    }
    Ok(torsh_serialize::crc32(&bytes))
}

/// What an optimizer's parameters are called: by their names in the models of the state, else by their numbers.
pub(super) struct ParameterNames {
    pub(super) keys: Vec<Json>,
    tensors: Vec<Tensor>,
}

impl ParameterNames {
    pub(super) fn piece<'l>(&self, layout: &'l Layout, number: usize) -> Option<&'l Piece> {
        let name = self.keys.get(number).and_then(Json::as_str);
        layout.find(self.tensors.get(number)?, name.unwrap_or(""))
    }
}

/// A view of a state for saving and loading.
pub(super) struct Sources<'s, 'a> {
    state: &'s State<'a>,
}

impl Sources<'_, '_> {
    pub(super) fn parts(&self) -> impl Iterator<Item = (&str, Kind)> {
        let parts = self.state.parts.iter();
        parts.map(|(name, source)| (name.as_str(), source.kind()))
    }

    /// The pieces that the state was told of, and those of sharded models.
    pub(super) fn layout(&self) -> Result<Layout> {
        let mut pieces = Vec::new();
        for layout in &self.state.layouts {
            pieces.extend(layout.pieces()?);
        }
        for (part, source) in &self.state.parts {
            let Source::Model { named, .. } = source else {
                continue;
            };
            for (name, p) in named() {
                pieces.extend(Piece::of_parameter(&below(part, &name), &p)?);
            }
        }
        Ok(Layout::new(pieces))
    }

    pub(super) fn checkpoint(&self) -> Result<Checkpoint> {
        self.state.builder.build()
    }

    pub(super) fn restore(&self, from: &Checkpoint) -> Result<()> {
        self.state.builder.restore(from)
    }

    /// The pieces of a part of pieces.
    pub(super) fn pieces(&self, part: &str) -> Result<Vec<Piece>> {
        match self.source(part) {
            Some(Source::Pieces(p)) => p.pieces(),
            _ => Ok(Vec::new()),
        }
    }

    /// Whether a model waits for shapes that only a checkpoint or an input brings.
    pub(super) fn is_lazy(&self, part: &str) -> bool {
        match self.source(part) {
            Some(Source::Model { named, .. }) => named().iter().any(|(_, p)| p.is_uninitialized()),
            _ => false,
        }
    }

    /// A state dict of an older form in the form that a model has.
    pub(super) fn upgraded(&self, part: &str, from: &StateDict) -> Result<StateDict> {
        match self.source(part) {
            Some(Source::Model { upgrade, .. }) => upgrade(from),
            _ => Ok(from.clone()),
        }
    }

    fn source(&self, part: &str) -> Option<&Source<'_>> {
        let parts = self.state.parts.iter();
        parts
            .into_iter()
            .find_map(|(n, s)| (n == part).then_some(s))
    }

    pub(super) fn parameter_names(&self, part: &str) -> ParameterNames {
        let tensors = match self.source(part) {
            Some(Source::Optimizer(parameters)) => parameters(),
            _ => Vec::new(),
        };
        let models: Vec<(&str, Vec<(String, Parameter)>)> = self
            .state
            .parts
            .iter()
            .filter_map(|(name, source)| match source {
                Source::Model { named, .. } => Some((name.as_str(), named())),
                _ => None,
            })
            .collect();
        let mut known: HashMap<(usize, usize), Vec<(String, Parameter)>> = HashMap::new();
        for (model, named) in models {
            for (name, p) in named {
                let place = (storage_of(p.tensor()), p.tensor().storage_offset());
                // As PyTorch calls them; those of other models and stages are told apart.
                let name = if model == "model" {
                    name
                } else {
                    below(model, &name)
                };
                known.entry(place).or_default().push((name, p));
            }
        }
        let name = |t: &Tensor| {
            let there = known.get(&(storage_of(t), t.storage_offset()))?;
            let same = there.iter().find(|(_, p)| p.tensor().is_same(t));
            Some(json!(same?.0))
        };
        let keys: Option<Vec<Json>> = tensors.iter().map(name).collect();
        ParameterNames {
            keys: keys.unwrap_or_else(|| (0..tensors.len()).map(|i| json!(i)).collect()),
            tensors,
        }
    }

    /// What this rank has to save.
    pub(super) fn build(&self, rank: usize) -> Result<Built> {
        let mut names: Vec<&str> = self.state.names().collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|w| w[0] == w[1]) {
            let why = format!("`{}` is the name of two parts", twice[0]);
            return Err(TorshError::invalid("checkpoint::save", why)
                .with_hint("give each a name: model_named, optimizer_named, with, per_rank"));
        }
        let layout = self.layout()?;
        let checkpoint = self.checkpoint()?;
        let mut built = Built {
            offer: Offer {
                parts: Vec::new(),
                tensors: Vec::new(),
            },
            tensors: Vec::new(),
        };
        for (name, source) in &self.state.parts {
            let missing =
                || TorshError::invalid("checkpoint::save", format!("no state of `{name}`"));
            let value = || checkpoint.part(name).ok_or_else(missing);
            let state = match source {
                Source::Model { named, .. } => {
                    let named = named();
                    all_pieces_known(name, &named, &layout)?;
                    let parameters: HashSet<String> =
                        named.iter().map(|(n, _)| below(name, n)).collect();
                    tree::encode(value()?, name, &mut |path, t| {
                        built.add(path, t, layout.find(t, path));
                        if !parameters.contains(path) {
                            built.of_first_rank();
                        }
                        Ok(json!({ TENSOR: path }))
                    })?
                }
                Source::Optimizer(_) => {
                    self.build_optimizer(name, value()?, &layout, rank, &mut built)?
                }
                Source::Shared => tree::encode(value()?, name, &mut |path, t| {
                    built.add(path, t, layout.find(t, path));
                    Ok(json!({ TENSOR: path }))
                })?,
                Source::PerRank => {
                    tree::encode(value()?, &format!("{name}@{rank}"), &mut |path, t| {
                        built.add(path, t, None);
                        Ok(json!({ TENSOR: path }))
                    })?
                }
                Source::Pieces(tensors) => {
                    let mut entries = Vec::new();
                    for piece in tensors.pieces()? {
                        let path = below(name, piece.name());
                        built.add(&path, piece.tensor(), Some(&piece));
                        entries.push(json!([piece.name(), { TENSOR: path }]));
                    }
                    json!({ "dict": entries })
                }
                Source::Value(json) => {
                    tree::encode(&tree::from_plain(json), name, &mut |_, _| Err(missing()))?
                }
            };
            built.offer.parts.push(PartOffer {
                name: name.clone(),
                kind: source.kind(),
                state,
            });
        }
        Ok(built)
    }

    fn build_optimizer(
        &self,
        name: &str,
        value: &Value,
        layout: &Layout,
        rank: usize,
        built: &mut Built,
    ) -> Result<Json> {
        let names = self.parameter_names(name);
        let unknown = |n: &Value| {
            TorshError::invalid(
                "checkpoint::save",
                format!("the optimizer `{name}` has a state of {n:?}, which is no parameter of it"),
            )
        };
        let key = |n: &Value| -> Result<(usize, &Json)> {
            let number = n.as_int().ok().and_then(|i| usize::try_from(i).ok());
            let number = number.ok_or_else(|| unknown(n))?;
            Ok((number, names.keys.get(number).ok_or_else(|| unknown(n))?))
        };
        let mut states = Vec::new();
        for (number, remembered) in value.get("state")?.as_dict()?.iter() {
            let (number, key) = key(number)?;
            let text = key.as_str().map_or_else(|| key.to_string(), str::to_string);
            let inner = format!("state.{text}");
            let path = below(name, &inner);
            let piece = names.piece(layout, number);
            let state = tree::encode(remembered, &path, &mut |path, t| {
                let Some(piece) = piece else {
                    built.add(path, t, None);
                    return Ok(json!({ TENSOR: path }));
                };
                if t.dims() == piece.tensor().dims() {
                    let part = Piece::new(path, piece.global_shape(), piece.offset(), t)?;
                    built.add(path, t, Some(&part));
                } else if t.ndim() > 0 {
                    // Of a piece, but of another shape, as sums over its rows: each rank's own.
                    let rest = path.strip_prefix(name).unwrap_or(path);
                    built.add(&format!("{name}@{rank}{rest}"), t, None);
                    return Ok(json!({ LOCAL: path }));
                } else {
                    built.add(path, t, None);
                }
                Ok(json!({ TENSOR: path }))
            })?;
            states.push(json!([key, state]));
        }
        let mut groups = Vec::new();
        for (i, group) in value.get("param_groups")?.as_list()?.iter().enumerate() {
            let mut options = Dict::new();
            let mut members = Vec::new();
            for (option, setting) in group.as_dict()?.iter() {
                if option.as_str()? != "params" {
                    options.insert(option.clone(), setting.clone())?;
                    continue;
                }
                for number in setting.as_list()? {
                    members.push(json!([key(number)?.1, true]));
                }
            }
            let path = below(name, &format!("param_groups.{i}"));
            let options = tree::encode(&Value::Dict(options), &path, &mut |path, t| {
                built.add(path, t, None);
                Ok(json!({ TENSOR: path }))
            })?;
            groups.push(json!({ "dict": [["options", options], ["params", { "dict": members }]] }));
        }
        Ok(json!({ "dict": [["state", { "dict": states }], ["param_groups", groups]] }))
    }
}

/// A parameter that holds a piece would be saved as a whole where nobody says what it is a piece of.
fn all_pieces_known(part: &str, named: &[(String, Parameter)], layout: &Layout) -> Result<()> {
    for (name, p) in named {
        let path = below(part, name);
        if p.unsharded().is_some() && layout.find(p.tensor(), &path).is_none() {
            return Err(TorshError::invalid(
                "checkpoint::save",
                format!("{path} is a piece of a parameter, and its place is not known"),
            )
            .with_hint("say where it belongs with State::sharded"));
        }
    }
    Ok(())
}
