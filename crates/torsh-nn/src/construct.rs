//! What new layers are made of while a function runs.
//!
//! A model's constructor makes many layers. Instead of handing device and dtype to each, it can run under
//! [`Construction`], as PyTorch's `with torch.device(..)` does, for one thread alone.

use std::cell::Cell;

use torsh_tensor::{DType, Device, Result, Tensor, default_device};

thread_local! {
    static CURRENT: Cell<Construction> = const { Cell::new(Construction::new()) };
}

/// The device and dtype of the layers that are made while [`Construction::run`] runs a function, and whether their
/// weights are drawn.
///
/// It holds for the calling thread. A layer's own `device` and `dtype` go ahead of it. Constructions nest; what the
/// inner one leaves open is the outer one's.
///
/// ```
/// use torsh_nn::construct::Construction;
/// use torsh_nn::Linear;
/// use torsh_tensor::{DType, Device};
///
/// let layer = Construction::new().dtype(DType::F64).device(Device::Meta).run(|| Linear::new(2, 3));
/// assert_eq!((layer.weight.dtype(), layer.weight.device()), (DType::F64, Device::Meta));
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "it does nothing until run()"]
pub struct Construction {
    device: Option<Device>,
    dtype: Option<DType>,
    draw_nothing: bool,
    reserve_nothing: bool,
}

/// Puts the outer construction back, also when the function panics.
struct Restore(Construction);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl Construction {
    /// One that leaves all as it is.
    pub const fn new() -> Construction {
        Construction {
            device: None,
            dtype: None,
            draw_nothing: false,
            reserve_nothing: false,
        }
    }

    /// The device of new tensors.
    pub fn device(mut self, device: impl Into<Device>) -> Self {
        self.device = Some(device.into());
        self
    }

    /// The dtype of new parameters and statistics.
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = Some(dtype);
        self
    }

    /// Leaves new weights as they are in memory instead of drawing them (`torch.nn.utils.skip_init`), for a model whose
    /// weights all come from a file. The generator stays where it is.
    ///
    /// ```standalone_crate
    /// use torsh_nn::construct::Construction;
    /// use torsh_nn::Linear;
    /// use torsh_core::random::default_generator;
    ///
    /// let before = default_generator().get_state();
    /// let layer = Construction::new().draw_nothing().run(|| Linear::new(2, 3));
    /// assert_eq!(default_generator().get_state(), before);
    /// assert_eq!(layer.weight.dims(), [3, 2]);
    /// ```
    pub fn draw_nothing(mut self) -> Self {
        self.draw_nothing = true;
        self
    }

    /// Makes weights of layers without memory of their own, and draws nothing: all elements of one are the same number
    /// in memory, so it can be read but not written. For a model all of whose weights are then replaced by those of a
    /// file, as `skip_init` on the meta device is used for in PyTorch; here buffers are computed as ever.
    ///
    /// ```
    /// use torsh_nn::construct::Construction;
    /// use torsh_nn::Linear;
    ///
    /// let layer = Construction::new().reserve_nothing().run(|| Linear::new(2000, 3000));
    /// assert_eq!((layer.weight.dims(), layer.weight.stride()), (&[3000, 2000][..], &[0, 0][..]));
    /// ```
    pub fn reserve_nothing(mut self) -> Self {
        self.draw_nothing = true;
        self.reserve_nothing = true;
        self
    }

    /// Runs a function that makes layers, and gives back what it returns.
    pub fn run<R>(self, f: impl FnOnce() -> R) -> R {
        let outer = CURRENT.get();
        let _restore = Restore(outer);
        CURRENT.set(Construction {
            device: self.device.or(outer.device),
            dtype: self.dtype.or(outer.dtype),
            draw_nothing: self.draw_nothing || outer.draw_nothing,
            reserve_nothing: self.reserve_nothing || outer.reserve_nothing,
        });
        f()
    }
}

/// The device of new layers: the construction's, or the default device. Models make their own parameters on it.
///
/// ```
/// use torsh_nn::construct::{self, Construction};
/// use torsh_tensor::Device;
/// assert_eq!(Construction::new().device(Device::Meta).run(construct::device), Device::Meta);
/// ```
pub fn device() -> Device {
    CURRENT.get().device.unwrap_or_else(default_device)
}

/// The dtype of new layers: the construction's, or the default dtype. Models make their own parameters of it.
///
/// ```
/// use torsh_nn::construct::{self, Construction};
/// use torsh_tensor::DType;
/// assert_eq!(construct::dtype(), DType::F32);
/// assert_eq!(Construction::new().dtype(DType::F64).run(construct::dtype), DType::F64);
/// ```
pub fn dtype() -> DType {
    own_dtype().unwrap_or_else(torsh_core::default_dtype)
}

pub(crate) fn own_dtype() -> Option<DType> {
    CURRENT.get().dtype
}

/// A new weight, whose elements are whatever is in memory.
pub(crate) fn weight(shape: &[usize], dtype: DType, device: Device) -> Result<Tensor> {
    if CURRENT.get().reserve_nothing {
        let sizes: Vec<i64> = shape.iter().map(|&n| n as i64).collect();
        return Tensor::zeros(&[] as &[usize], dtype, device)?.expand(sizes);
    }
    Tensor::empty(shape, dtype, device)
}

/// Whether [`init`](crate::init)'s functions leave tensors as they are ([`Construction::draw_nothing`]).
///
/// ```
/// use torsh_nn::construct::{self, Construction};
/// assert!(Construction::new().draw_nothing().run(construct::draws_nothing));
/// ```
pub fn draws_nothing() -> bool {
    CURRENT.get().draw_nothing
}
