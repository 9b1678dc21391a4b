//! PowerSGD: gradients as products of two thin matrices.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use torsh_core::Generator;
use torsh_core::random::Mt19937;
use torsh_tensor::{DType, Result, Tensor, TorshError, cat};

use crate::reduce::ReduceOp;

use super::hooks::{AllReduceHook, CommHook, CommStep, GradBucket};

/// PyTorch's settings of `PowerSGDState`.
///
/// ```
/// use torsh_distributed::PowerSGDOptions;
/// let o = PowerSGDOptions::new().matrix_approximation_rank(2);
/// assert_eq!((o.matrix_approximation_rank, o.start_powerSGD_iter, o.min_compression_rate), (2, 1000, 2.0));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[allow(non_snake_case)]
pub struct PowerSGDOptions {
    /// How many columns the thin matrices have: more are nearer to the gradient and cost more. 1 unless set.
    pub matrix_approximation_rank: usize,
    /// How many steps send whole gradients first. The default is 1,000. At least 2 with error feedback or warm start.
    pub start_powerSGD_iter: u64,
    /// A gradient is compressed if it gets smaller by more than this factor. The default is 2.
    pub min_compression_rate: f64,
    /// Whether what a step did not send is added to the next step's gradients. The default is `true`.
    pub use_error_feedback: bool,
    /// Whether a step begins with the matrices of the one before. The default is `true`.
    pub warm_start: bool,
    /// Added to the lengths of columns before they are divided by them. The default is 0.
    pub orthogonalization_epsilon: f64,
    /// Of the random matrices to begin with. The default is 0. Random numbers are PyTorch's.
    pub random_seed: u32,
}

impl Default for PowerSGDOptions {
    fn default() -> Self {
        PowerSGDOptions {
            matrix_approximation_rank: 1,
            start_powerSGD_iter: 1000,
            min_compression_rate: 2.0,
            use_error_feedback: true,
            warm_start: true,
            orthogonalization_epsilon: 0.0,
            random_seed: 0,
        }
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $ty:ty;)*) => {
        #[allow(non_snake_case)]
        impl PowerSGDOptions {
            /// The defaults.
            pub fn new() -> Self {
                Self::default()
            }

            $($(#[$doc])*
            #[must_use]
            pub fn $name(mut self, $name: $ty) -> Self {
                self.$name = $name;
                self
            })*
        }
    };
}

setters! {
    /// Sets how many columns the thin matrices have.
    matrix_approximation_rank: usize;
    /// Sets how many steps send whole gradients first.
    start_powerSGD_iter: u64;
    /// Sets by which factor a gradient must get smaller to be compressed.
    min_compression_rate: f64;
    /// Sets whether what a step did not send is added to the next step's gradients.
    use_error_feedback: bool;
    /// Sets whether a step begins with the matrices of the one before.
    warm_start: bool;
    /// Sets what is added to the lengths of columns.
    orthogonalization_epsilon: f64;
    /// Sets the seed of the random matrices.
    random_seed: u32;
}

impl PowerSGDOptions {
    fn check(self, op: &'static str) -> Result<PowerSGDOptions> {
        let wrong = |why: String| Err(TorshError::invalid(op, why));
        if self.matrix_approximation_rank == 0 {
            return wrong("matrix_approximation_rank must be at least 1, got 0".into());
        }
        if self.start_powerSGD_iter < 2 && (self.use_error_feedback || self.warm_start) {
            return wrong(format!(
                "start_powerSGD_iter must be at least 2 with error feedback or warm start, got {}: buckets change after the first step",
                self.start_powerSGD_iter
            ));
        }
        if self.min_compression_rate.is_nan() || self.min_compression_rate <= 0.0 {
            return wrong(format!(
                "min_compression_rate must be above 0, got {}",
                self.min_compression_rate
            ));
        }
        Ok(self)
    }
}

/// What a hook remembers.
struct PowerSGDState {
    options: PowerSGDOptions,
    step: u64,
    /// NumPy's generator, which draws the seeds of the random matrices.
    seeds: Mt19937,
    /// By bucket.
    errors: HashMap<usize, Tensor>,
    right: HashMap<usize, Vec<Tensor>>,
    before: usize,
    after: usize,
}

impl PowerSGDState {
    fn new(options: PowerSGDOptions) -> Arc<Mutex<PowerSGDState>> {
        Arc::new(Mutex::new(PowerSGDState {
            seeds: Mt19937::new(u64::from(options.random_seed)),
            options,
            step: 0,
            errors: HashMap::new(),
            right: HashMap::new(),
            before: 0,
            after: 0,
        }))
    }

    /// Whether a bucket is compressed in this step, which the last one ends.
    fn begin(&mut self, bucket: &GradBucket) -> bool {
        let begun = self.step >= self.options.start_powerSGD_iter;
        if bucket.is_last() {
            self.step += 1;
        }
        begun
    }

    /// `RandomState.randint(1_000_000_000)`.
    fn seed(&mut self) -> u64 {
        loop {
            let drawn = self.seeds.next_u32() & 0x3fff_ffff;
            if drawn < 1_000_000_000 {
                return u64::from(drawn);
            }
        }
    }

    /// The matrices to multiply the gradients with, with orthonormal columns.
    fn right_of(
        &mut self,
        bucket: usize,
        like: &Tensor,
        shapes: &[[usize; 2]],
    ) -> Result<Vec<Tensor>> {
        let epsilon = self.options.orthogonalization_epsilon;
        let known = self.right.get(&bucket).filter(|known| {
            known.len() == shapes.len() && known.iter().zip(shapes).all(|(q, s)| q.dims() == s)
        });
        let all = match known {
            Some(known) if self.options.warm_start => known.clone(),
            _ => {
                let generator = Generator::new(self.seed());
                let draw = |s: &[usize; 2]| -> Result<Tensor> {
                    let q = Tensor::zeros(*s, like.dtype(), torsh_tensor::Device::Cpu)?;
                    q.normal_with_(0.0, 1.0, &generator)?;
                    q.to_device(like.device())
                };
                shapes.iter().map(draw).collect::<Result<Vec<_>>>()?
            }
        };
        for q in &all {
            orthogonalize(q, epsilon)?;
        }
        Ok(all)
    }

    /// Adds what the step before did not send.
    fn add_error(&mut self, bucket: usize, to: &Tensor) -> Result<()> {
        if let Some(error) = self.errors.get(&bucket).filter(|e| e.numel() == to.numel()) {
            to.add_(error)?;
        }
        Ok(())
    }

    fn end(&mut self, bucket: usize, right: Vec<Tensor>, error: Option<Tensor>) {
        if self.options.warm_start {
            self.right.insert(bucket, right);
        }
        if let Some(error) = error {
            self.errors.insert(bucket, error);
        }
    }
}

/// Gives a matrix orthonormal columns, in place (Gram-Schmidt). A column of zeros stays.
fn orthogonalize(m: &Tensor, epsilon: f64) -> Result<()> {
    let columns = m.dims()[1];
    for i in 0..columns {
        let column = m.narrow(1, i, 1)?;
        let length = column.square()?.sum_dim(0, true)?.sqrt()?;
        let length = match epsilon > 0.0 {
            true => length.add(epsilon)?,
            false => length.clamp_min(f64::from(f32::MIN_POSITIVE))?,
        };
        column.div_(&length)?;
        if i + 1 < columns {
            let rest = m.narrow(1, i + 1, columns - i - 1)?;
            let along = column.mul(&rest)?.sum_dim(0, true)?;
            rest.sub_(&along.mul(&column)?)?;
        }
    }
    Ok(())
}

fn check_dtypes(dtypes: &[DType]) -> Result<()> {
    match dtypes.iter().find(|d| !d.is_floating_point()) {
        None => Ok(()),
        Some(d) => Err(TorshError::dtype(
            "register_comm_hook",
            format!("PowerSGD compresses gradients of real floating-point dtypes, not {d}"),
        )),
    }
}

/// Sends each large gradient as two thin matrices whose product is near to it, and keeps what is missing for the next
/// step (`powerSGD_hook`; Vogels et al., 2019). Vectors and small matrices are sent as they are.
///
/// ```
/// use torsh_distributed::{DistributedDataParallel, PowerSGDHook, PowerSGDOptions, spawn};
/// use torsh_nn::{Linear, Module, ModuleExt};
/// use torsh_tensor::ones;
/// spawn(2, |group| {
///     let ddp = DistributedDataParallel::new(Linear::new(16, 16), group.rank())?;
///     let options = PowerSGDOptions::new().start_powerSGD_iter(2);
///     ddp.register_comm_hook(PowerSGDHook::new(options)?)?;
///     for _ in 0..4 {
///         ddp.zero_grad();
///         ddp.forward(&ones(&[1, 16]))?.sum()?.backward()?;
///         // A gradient of rank 1 is sent exactly, but for rounding.
///         let grad = ddp.module().weight.grad().expect("there is one");
///         assert!(grad.allclose(&ones(&[16, 16]))?);
///     }
///     Ok(())
/// })?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct PowerSGDHook(Arc<Mutex<PowerSGDState>>);

impl PowerSGDHook {
    /// A hook that compresses layer by layer.
    ///
    /// # Errors
    /// A rank of 0; compression before the third step with error feedback or warm start; a compression rate of 0 or less.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(options: PowerSGDOptions) -> Result<PowerSGDHook> {
        Ok(PowerSGDHook(PowerSGDState::new(
            options.check("PowerSGDHook")?,
        )))
    }

    /// How many times fewer elements were sent than there were gradients, the elements before, and those after
    /// (`compression_stats`), since the compression began.
    pub fn compression_stats(&self) -> (f64, usize, usize) {
        stats(&self.0)
    }
}

fn stats(memory: &Mutex<PowerSGDState>) -> (f64, usize, usize) {
    let m = memory.lock();
    let rate = match m.after {
        0 => 0.0,
        after => m.before as f64 / after as f64,
    };
    (rate, m.before, m.after)
}

/// One compressed gradient.
struct Factor {
    gradient: Tensor,
    matrix: Tensor,
    left: Tensor,
    right: Tensor,
}

/// Gradients one after the other, for one message.
fn flat(tensors: &[Tensor], like: &Tensor) -> Result<Tensor> {
    let parts = tensors.iter().map(|t| t.reshape([-1]));
    let parts = parts.collect::<Result<Vec<_>>>()?;
    match parts.is_empty() {
        true => Tensor::zeros([0], like.dtype(), like.device()),
        false => cat(&parts.iter().collect::<Vec<_>>(), 0),
    }
}

/// Puts the parts of [`flat`] back.
fn unflatten(flat: &Tensor, tensors: &[Tensor]) -> Result<()> {
    let mut at = 0;
    for t in tensors {
        t.copy_(&flat.narrow(0, at, t.numel())?.reshape(t.dims())?)?;
        at += t.numel();
    }
    Ok(())
}

impl CommHook for PowerSGDHook {
    fn name(&self) -> &str {
        "powerSGD"
    }

    #[torsh_tensor::names_caller]
    fn check(&self, dtypes: &[DType]) -> Result<()> {
        check_dtypes(dtypes)
    }

    #[torsh_tensor::names_caller]
    fn start(&self, bucket: &GradBucket) -> Result<CommStep> {
        let memory = self.0.clone();
        let mut m = memory.lock();
        if !m.begin(bucket) {
            return AllReduceHook.start(bucket);
        }
        let (index, buffer, group) = (
            bucket.index(),
            bucket.buffer().clone(),
            bucket.group().clone(),
        );
        let mut input = None;
        if m.options.use_error_feedback {
            m.add_error(index, &buffer)?;
            input = Some(buffer.copy()?);
        }
        let (mut whole, mut matrices, mut shapes) = (Vec::new(), Vec::new(), Vec::new());
        for gradient in bucket.gradients()? {
            let elements = gradient.numel();
            let rows = gradient.dims().first().copied().unwrap_or(1);
            let columns = elements.checked_div(rows).unwrap_or(0);
            let rank = rows.min(columns).min(m.options.matrix_approximation_rank);
            let sent = (rows + columns) * rank;
            m.before += elements;
            if elements > 0 && sent as f64 * m.options.min_compression_rate < elements as f64 {
                m.after += sent;
                matrices.push((gradient.reshape([rows, columns])?, gradient));
                shapes.push([columns, rank]);
            } else {
                m.after += elements;
                whole.push(gradient);
            }
        }
        let right = m.right_of(index, &buffer, &shapes)?;
        let mut factors = Vec::with_capacity(matrices.len());
        for ((matrix, gradient), right) in matrices.into_iter().zip(right) {
            factors.push(Factor {
                left: matrix.matmul(&right)?,
                gradient,
                matrix,
                right,
            });
        }
        let epsilon = m.options.orthogonalization_epsilon;
        drop(m);

        let plain = flat(&whole, &buffer)?;
        let plain_work = group.all_reduce_async(&plain, ReduceOp::Avg)?;
        let lefts: Vec<Tensor> = factors.iter().map(|f| f.left.clone()).collect();
        let left = flat(&lefts, &buffer)?;
        let left_work = group.all_reduce_async(&left, ReduceOp::Sum)?;
        Ok(CommStep::after(plain_work, move || {
            unflatten(&plain, &whole)?;
            left_work.wait()?;
            unflatten(&left, &lefts)?;
            for f in &mut factors {
                orthogonalize(&f.left, epsilon)?;
                f.right = f.matrix.t()?.matmul(&f.left)?;
            }
            let rights: Vec<Tensor> = factors.iter().map(|f| f.right.clone()).collect();
            let right = flat(&rights, &buffer)?;
            let work = group.all_reduce_async(&right, ReduceOp::Avg)?;
            Ok(CommStep::after(work, move || {
                unflatten(&right, &rights)?;
                for f in &factors {
                    let product = f.left.matmul(&f.right.t()?)?;
                    f.gradient.copy_(&product.reshape(f.gradient.dims())?)?;
                }
                let error = input.map(|i| i.sub(&buffer)).transpose()?;
                memory.lock().end(index, rights, error);
                Ok(CommStep::Done)
            }))
        }))
    }
}

/// [`PowerSGDHook`] that takes all gradients of a bucket as one square matrix (`batched_powerSGD_hook`): faster, and
/// farther from the gradients.
///
/// ```
/// use torsh_distributed::{BatchedPowerSGDHook, DistributedDataParallel, PowerSGDOptions, spawn};
/// use torsh_nn::{Linear, Module, ModuleExt};
/// use torsh_tensor::ones;
/// spawn(2, |group| {
///     let layer = Linear::builder(16, 16).bias(false).build()?;
///     let ddp = DistributedDataParallel::new(layer, group.rank())?;
///     let options = PowerSGDOptions::new().start_powerSGD_iter(2);
///     ddp.register_comm_hook(BatchedPowerSGDHook::new(options)?)?;
///     for _ in 0..4 {
///         ddp.zero_grad();
///         ddp.forward(&ones(&[1, 16]))?.sum()?.backward()?;
///         let grad = ddp.module().weight.grad().expect("there is one");
///         assert!(grad.allclose(&ones(&[16, 16]))?);
///     }
///     Ok(())
/// })?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct BatchedPowerSGDHook(Arc<Mutex<PowerSGDState>>);

impl BatchedPowerSGDHook {
    /// A hook that compresses bucket by bucket; `min_compression_rate` is not looked at.
    ///
    /// # Errors
    /// As for [`PowerSGDHook::new`].
    #[torsh_tensor::names_caller(Self)]
    pub fn new(options: PowerSGDOptions) -> Result<BatchedPowerSGDHook> {
        Ok(BatchedPowerSGDHook(PowerSGDState::new(
            options.check("BatchedPowerSGDHook")?,
        )))
    }

    /// As [`PowerSGDHook::compression_stats`].
    pub fn compression_stats(&self) -> (f64, usize, usize) {
        stats(&self.0)
    }
}

impl CommHook for BatchedPowerSGDHook {
    fn name(&self) -> &str {
        "batched powerSGD"
    }

    #[torsh_tensor::names_caller]
    fn check(&self, dtypes: &[DType]) -> Result<()> {
        check_dtypes(dtypes)
    }

    #[torsh_tensor::names_caller]
    fn start(&self, bucket: &GradBucket) -> Result<CommStep> {
        let memory = self.0.clone();
        let mut m = memory.lock();
        if !m.begin(bucket) || bucket.buffer().numel() == 0 {
            return AllReduceHook.start(bucket);
        }
        let (index, buffer, group) = (
            bucket.index(),
            bucket.buffer().clone(),
            bucket.group().clone(),
        );
        let n = buffer.numel();
        let side = (1..=n).find(|s| s * s >= n).unwrap_or(n);
        let rank = side.min(m.options.matrix_approximation_rank);
        m.before += n;
        m.after += 2 * side * rank;
        let square = Tensor::zeros([side * side], buffer.dtype(), buffer.device())?;
        square.narrow(0, 0, n)?.copy_(&buffer)?;
        let mut input = None;
        if m.options.use_error_feedback {
            m.add_error(index, &square)?;
            input = Some(square.copy()?);
        }
        let matrix = square.view([side, side])?;
        let right = m.right_of(index, &buffer, &[[side, rank]])?;
        let left = matrix.matmul(&right[0])?;
        let epsilon = m.options.orthogonalization_epsilon;
        drop(m);

        let work = group.all_reduce_async(&left, ReduceOp::Sum)?;
        Ok(CommStep::after(work, move || {
            orthogonalize(&left, epsilon)?;
            let right = matrix.t()?.matmul(&left)?.contiguous()?;
            let work = group.all_reduce_async(&right, ReduceOp::Avg)?;
            Ok(CommStep::after(work, move || {
                matrix.copy_(&left.matmul(&right.t()?)?)?;
                buffer.copy_(&square.narrow(0, 0, n)?)?;
                let error = input.map(|i| i.sub(&square)).transpose()?;
                memory.lock().end(index, vec![right], error);
                Ok(CommStep::Done)
            }))
        }))
    }
}
