//! New tensors from sizes, numbers and slices, and numbers out of tensors.

use torsh_core::{DType, Device, Element, Result, Scalar, Shape, TorshError, attrs, lock_all};

use crate::call::write_fresh;
use crate::record::OpRecord;
use crate::{IntoShape, Tensor};

pub(crate) const RECORDS: &[&OpRecord] = &[];

impl Tensor {
    /// A tensor whose elements are whatever the memory held (`torch.empty`).
    ///
    /// ```
    /// # use torsh_tensor::{DType, Device, Tensor};
    /// let x = Tensor::empty([2, 3], DType::F32, Device::Cpu)?;
    /// assert_eq!(x.fill_(1.0)?.sum()?.item::<f32>()?, 6.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn empty(shape: impl IntoShape, dtype: DType, device: Device) -> Result<Tensor> {
        Tensor::fresh("empty", shape, dtype, device)
    }

    /// [`Tensor::empty`] for an op whose name is in errors.
    #[track_caller]
    fn fresh(
        op: &'static str,
        shape: impl IntoShape,
        dtype: DType,
        device: Device,
    ) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        let shape = shape.shape().map_err(|e| e.in_op(op, Vec::new, at))?;
        Tensor::uninit_of(&shape, dtype, device)
            .map_err(|e| e.in_op(op, || vec![format!("{dtype}{shape} {device}")], at))
    }

    /// [`Tensor::full`] for an op whose name is in errors.
    #[track_caller]
    fn filled(
        op: &'static str,
        shape: impl IntoShape,
        value: Scalar,
        dtype: DType,
        device: Device,
    ) -> Result<Tensor> {
        let t = Tensor::fresh(op, shape, dtype, device)?;
        super::index::check_number(value, dtype).map_err(|e| e.renamed(op))?;
        write_fresh(&super::copy::FILL_, &t, &[], &attrs::Fill { value })?;
        Ok(t)
    }

    /// A tensor filled with one number (`torch.full`).
    ///
    /// ```
    /// # use torsh_tensor::{DType, Device, Tensor};
    /// let x = Tensor::full([2], 0.5, DType::F64, Device::Cpu)?;
    /// assert_eq!(x.to_vec::<f64>()?, [0.5, 0.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn full(
        shape: impl IntoShape,
        value: impl Into<Scalar>,
        dtype: DType,
        device: Device,
    ) -> Result<Tensor> {
        Tensor::filled("full", shape, value.into(), dtype, device)
    }

    /// Zeros (`torch.zeros`).
    ///
    /// ```
    /// # use torsh_tensor::{DType, Device, Tensor, tensor};
    /// let x = Tensor::zeros([2], DType::I64, Device::Cpu)?;
    /// assert_eq!(x, tensor![0, 0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn zeros(shape: impl IntoShape, dtype: DType, device: Device) -> Result<Tensor> {
        Tensor::filled("zeros", shape, Scalar::Int(0), dtype, device)
    }

    /// Ones (`torch.ones`).
    ///
    /// ```
    /// # use torsh_tensor::{DType, Device, Tensor, tensor};
    /// let x = Tensor::ones([2, 1], DType::F32, Device::Cpu)?;
    /// assert_eq!(x, tensor![[1.0], [1.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn ones(shape: impl IntoShape, dtype: DType, device: Device) -> Result<Tensor> {
        Tensor::filled("ones", shape, Scalar::Int(1), dtype, device)
    }

    /// A 0-d tensor (`torch.tensor(2.0)`); the number must fit the dtype.
    ///
    /// ```
    /// # use torsh_tensor::{DType, Device, Tensor};
    /// let x = Tensor::scalar(2.5, DType::F32, Device::Cpu)?;
    /// assert_eq!((x.ndim(), x.item::<f32>()?), (0, 2.5));
    /// // 300 is too large for uint8.
    /// assert!(Tensor::scalar(300, DType::U8, Device::Cpu).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn scalar(value: impl Into<Scalar>, dtype: DType, device: Device) -> Result<Tensor> {
        Tensor::full((), value, dtype, device)
    }

    /// A 0-d CPU tensor of a plain number.
    pub(crate) fn from_number(value: Scalar, dtype: DType) -> Result<Tensor> {
        Tensor::full((), value, dtype, Device::Cpu)
    }

    /// A tensor of the values of a slice on the default device, row-major, of the slice's own
    /// dtype. An error where the shape holds another number of elements.
    ///
    /// ```
    /// # use torsh_tensor::{Tensor, tensor};
    /// let x = Tensor::from_data(&[1i64, 2, 3, 4], [2, 2])?;
    /// assert_eq!(x, tensor![[1, 2], [3, 4]]);
    /// assert!(Tensor::from_data(&[1i64, 2, 3], [2, 2]).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn from_data<T: Element>(data: &[T], shape: impl IntoShape) -> Result<Tensor> {
        Tensor::from_data_on(data, shape, crate::default_device())
    }

    /// [`Tensor::from_data`] on a device of its own.
    #[track_caller]
    pub(crate) fn from_data_on<T: Element>(
        data: &[T],
        shape: impl IntoShape,
        device: Device,
    ) -> Result<Tensor> {
        Tensor::on_host(data, shape)?.to_device(device)
    }

    /// [`Tensor::from_data`] on the CPU.
    #[track_caller]
    pub(crate) fn on_host<T: Element>(data: &[T], shape: impl IntoShape) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        let shape = shape
            .shape()
            .map_err(|e| e.in_op("from_data", Vec::new, at))?;
        let n = shape
            .checked_numel(T::DTYPE.size())
            .map_err(|e| e.in_op("from_data", Vec::new, at))?;
        if n != data.len() {
            return Err(TorshError::shape(
                "from_data",
                format!(
                    "{} values do not make a tensor of shape {shape}, which has {n}",
                    data.len()
                ),
            ));
        }
        let t = Tensor::uninit(shape, T::DTYPE, Device::Cpu)?;
        crate::raw::write(&t, data);
        Ok(t)
    }

    /// A tensor of the values of a vector on the default device, row-major, of its own dtype. An
    /// error where the shape holds another number of elements.
    ///
    /// ```
    /// # use torsh_tensor::{Tensor, tensor};
    /// let x = Tensor::from_vec(vec![1.0f32, 2.0], [2, 1])?;
    /// assert_eq!(x, tensor![[1.0], [2.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn from_vec<T: Element>(data: Vec<T>, shape: impl IntoShape) -> Result<Tensor> {
        Tensor::from_data(&data, shape)
    }

    /// A tensor of the values of a slice with an explicit dtype and device; a value that does not
    /// fit the dtype is an error.
    ///
    /// ```
    /// # use torsh_tensor::{DType, Device, Tensor, tensor};
    /// let x = Tensor::from_slice(&[1, 2], [2], DType::F32, Device::Cpu)?;
    /// assert_eq!(x, tensor![1.0, 2.0]);
    /// assert!(Tensor::from_slice(&[0.5], [1], DType::I64, Device::Cpu).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn from_slice<T: Element>(
        data: &[T],
        shape: impl IntoShape,
        dtype: DType,
        device: Device,
    ) -> Result<Tensor> {
        if let Some(bad) = data.iter().find(|v| !fits(v.to_scalar(), dtype)) {
            return Err(TorshError::dtype(
                "from_slice",
                format!("the value {} does not fit {dtype}", bad.to_scalar()),
            ));
        }
        Tensor::on_host(data, shape)?
            .to_dtype(dtype)?
            .to_device(device)
    }

    /// A CPU tensor of raw row-major bytes in native byte order. An error where the bytes are too
    /// few or too many, or a bool is neither 0 nor 1.
    ///
    /// ```
    /// # use torsh_tensor::{DType, Tensor, tensor};
    /// let x = Tensor::from_bytes(&1.5f32.to_ne_bytes(), DType::F32, [1])?;
    /// assert_eq!(x, tensor![1.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn from_bytes(bytes: &[u8], dtype: DType, shape: impl IntoShape) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        let shape: Shape = shape
            .shape()
            .map_err(|e| e.in_op("from_bytes", Vec::new, at))?;
        let n = shape
            .checked_numel(dtype.size())
            .map_err(|e| e.in_op("from_bytes", Vec::new, at))?;
        if n * dtype.size() != bytes.len() {
            return Err(TorshError::shape(
                "from_bytes",
                format!(
                    "{} bytes do not make {dtype}{shape}, which has {}",
                    bytes.len(),
                    n * dtype.size()
                ),
            ));
        }
        if dtype == DType::Bool && bytes.iter().any(|&b| b > 1) {
            return Err(TorshError::invalid("from_bytes", "a bool is 0 or 1"));
        }
        let t = Tensor::uninit(shape, dtype, Device::Cpu)?;
        crate::raw::write(&t, bytes);
        Ok(t)
    }

    /// Refuses to copy more elements of a size to the host than it has memory for.
    #[track_caller]
    fn fits_host(&self, op: &'static str, size: usize) -> Result<()> {
        let at = std::panic::Location::caller();
        torsh_core::alloc::check(self.numel(), size)
            .map_err(|e| TorshError::from(e).in_op(op, || vec![self.describe()], at))
    }

    /// The elements' raw bytes, row-major, in native byte order. A meta tensor, which has no data,
    /// is an error.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1.5].to_bytes()?, 1.5f32.to_ne_bytes());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let t = self.detach().host("to_bytes")?.contiguous()?;
        self.fits_host("to_bytes", t.dtype().size())?;
        let mut out = vec![0u8; t.numel() * t.dtype().size()];
        let guard = lock_all(&[(t.storage().as_ref(), false)]);
        guard.usable().map_err(|e| e.renamed("to_bytes"))?;
        crate::raw::read_bytes(&t, &mut out);
        Ok(out)
    }

    /// Writes the elements, row-major, to memory that is there already. An error where `T` is not the tensor's dtype, or
    /// the slice has another length; nothing is written then.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let mut out = [0.0f32; 4];
    /// tensor![[1.0, 2.0], [3.0, 4.0]].t()?.copy_to_slice(&mut out)?;
    /// assert_eq!(out, [1.0, 3.0, 2.0, 4.0]);
    /// assert!(tensor![1.0].copy_to_slice(&mut out).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn copy_to_slice<T: Element>(&self, out: &mut [T]) -> Result<()> {
        if self.dtype() != T::DTYPE || self.numel() != out.len() {
            let message = format!(
                "a slice of {} {} does not hold the elements of {}",
                out.len(),
                T::DTYPE,
                self.describe()
            );
            let hint = "convert the tensor with to_dtype(), and take a slice of numel() elements";
            return Err(TorshError::invalid("copy_to_slice", message).with_hint(hint));
        }
        let t = self.detach().host("copy_to_slice")?.contiguous()?;
        let guard = lock_all(&[(t.storage().as_ref(), false)]);
        guard.usable().map_err(|e| e.renamed("copy_to_slice"))?;
        crate::raw::read_elements(&t, out);
        Ok(())
    }

    /// The elements, row-major, converted to `T`; an error where one does not fit.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].t()?.to_vec::<f64>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let t = self.detach().host("to_vec")?.contiguous()?;
        let n = t.numel();
        self.fits_host("to_vec", size_of::<T>())?;
        if t.dtype() == T::DTYPE {
            let mut out = vec![T::default(); n];
            let guard = lock_all(&[(t.storage().as_ref(), false)]);
            guard.usable().map_err(|e| e.renamed("to_vec"))?;
            crate::raw::read_elements(&t, &mut out);
            return Ok(out);
        }
        let bytes = t.to_bytes()?;
        bytes
            .chunks_exact(t.dtype().size())
            .map(|b| {
                let s = Scalar::from_bytes(b, t.dtype());
                T::from_scalar(s).ok_or_else(|| {
                    TorshError::dtype(
                        "to_vec",
                        format!(
                            "the value {s} of a {} tensor does not fit {}",
                            t.dtype(),
                            T::DTYPE
                        ),
                    )
                })
            })
            .collect()
    }

    /// The only element, converted to `T` (`Tensor.item`); an error where there are more or none,
    /// or it does not fit, and for a meta tensor, which has no data.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![2.5].item::<f64>()?, 2.5);
    /// assert!(tensor![1.0, 2.0].item::<f64>().is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn item<T: Element>(&self) -> Result<T> {
        let s = self.item_scalar()?;
        T::from_scalar(s).ok_or_else(|| {
            TorshError::dtype(
                "item",
                format!(
                    "the value {s} of a {} tensor does not fit {}",
                    self.dtype(),
                    T::DTYPE
                ),
            )
        })
    }

    /// The only element as a number.
    ///
    /// ```
    /// use torsh_tensor::{Scalar, tensor};
    /// assert_eq!(tensor![3].item_scalar()?, Scalar::Int(3));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn item_scalar(&self) -> Result<Scalar> {
        if self.numel() != 1 {
            return Err(TorshError::shape(
                "item",
                format!(
                    "a Tensor with {} elements cannot be converted to Scalar: {}",
                    self.numel(),
                    self.describe()
                ),
            ));
        }
        let t = self.host("item")?;
        let mut raw = [0u8; 16];
        let guard = lock_all(&[(t.storage().as_ref(), false)]);
        guard.usable().map_err(|e| e.renamed("item"))?;
        crate::raw::read_bytes(&t, &mut raw[..t.dtype().size()]);
        Ok(Scalar::from_bytes(&raw, t.dtype()))
    }

    /// The tensor on the host; an error for a meta tensor, and for a sparse one.
    pub(crate) fn host(&self, op: &'static str) -> Result<Tensor> {
        if !self.is_strided() {
            return Err(crate::call::no_rule(op, &[crate::call::Arg::T(self)]));
        }
        match self.device() {
            Device::Cpu => Ok(self.clone()),
            Device::Meta => Err(TorshError::device(op, "a meta tensor has no data")),
            _ => self.to_device(Device::Cpu),
        }
    }
}

fn fits(s: Scalar, dtype: DType) -> bool {
    match dtype {
        DType::U8 => u8::from_scalar(s).is_some(),
        DType::I8 => i8::from_scalar(s).is_some(),
        DType::I16 => i16::from_scalar(s).is_some(),
        DType::I32 => i32::from_scalar(s).is_some(),
        DType::I64 => i64::from_scalar(s).is_some(),
        DType::Bool => bool::from_scalar(s).is_some(),
        DType::C64 | DType::C128 => true,
        _ => f64::from_scalar(s).is_some(),
    }
}
