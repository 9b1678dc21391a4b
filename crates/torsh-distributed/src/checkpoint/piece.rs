//! Pieces: parts of tensors that several ranks hold together.

use torsh_nn::Parameter;
use torsh_tensor::{DType, Result, Tensor, TorshError};

use crate::fsdp::sharding_of;
use crate::sharded::{Placement, ShardedTensor};

/// A rank's part of a tensor: the box of elements from `offset` on that is as large as `tensor`.
///
/// ```
/// use torsh_distributed::checkpoint::Piece;
/// use torsh_tensor::tensor;
///
/// // The last of three rows.
/// let piece = Piece::new("weight", [3, 2], [2, 0], &tensor![[5.0, 6.0]])?;
/// assert_eq!(piece.global_shape(), [3, 2]);
/// assert!(Piece::new("weight", [3, 2], [3, 0], &tensor![[5.0, 6.0]]).is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Piece {
    name: String,
    global_shape: Vec<usize>,
    offset: Vec<usize>,
    tensor: Tensor,
}

impl Piece {
    /// Returns the part of a tensor of `global_shape` that begins at `offset`. Several ranks may hold the same part. A
    /// part may be empty.
    ///
    /// ```
    /// use torsh_distributed::checkpoint::Piece;
    /// use torsh_tensor::tensor;
    ///
    /// let piece = Piece::new("bias", [4], [1], &tensor![5.0, 6.0])?;
    /// assert_eq!((piece.offset(), piece.global_shape()), (&[1][..], &[4][..]));
    /// let error = Piece::new("bias", [4], [3], &tensor![5.0, 6.0]).unwrap_err();
    /// assert!(error.to_string().contains("bias: the part [2] from [3] on is not within [4]"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// The part reaches out of the tensor, or has another number of dimensions.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        name: impl Into<String>,
        global_shape: impl Into<Vec<usize>>,
        offset: impl Into<Vec<usize>>,
        tensor: &Tensor,
    ) -> Result<Piece> {
        let mut piece = Piece {
            name: name.into(),
            global_shape: global_shape.into(),
            offset: offset.into(),
            tensor: tensor.clone(),
        };
        // A number is not split: one rank has it, and the others an empty tensor, which needs a dimension.
        if piece.global_shape.is_empty() && tensor.numel() == 0 {
            piece.offset.clear();
            return Ok(piece);
        }
        match within(&piece.global_shape, &piece.offset, piece.tensor.dims()) {
            true => Ok(piece),
            false => Err(TorshError::shape(
                "Piece::new",
                format!(
                    "{}: the part {:?} from {:?} on is not within {:?}",
                    piece.name,
                    piece.tensor.dims(),
                    piece.offset,
                    piece.global_shape
                ),
            )),
        }
    }

    /// Returns a whole tensor as its only part.
    ///
    /// ```
    /// use torsh_distributed::checkpoint::Piece;
    /// use torsh_tensor::tensor;
    ///
    /// let piece = Piece::whole("weight", &tensor![[1.0, 2.0]]);
    /// assert_eq!((piece.global_shape(), piece.offset()), (&[1, 2][..], &[0, 0][..]));
    /// ```
    pub fn whole(name: impl Into<String>, tensor: &Tensor) -> Piece {
        Piece {
            name: name.into(),
            global_shape: tensor.dims().to_vec(),
            offset: vec![0; tensor.ndim()],
            tensor: tensor.clone(),
        }
    }

    /// This rank's part of a [`ShardedTensor`], whose memory it shares.
    ///
    /// ```
    /// use torsh_distributed::checkpoint::Piece;
    /// use torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let offsets = spawn(2, |_| {
    ///     let mesh = DeviceMesh::new(&[2], &["tp"])?;
    ///     let t = distribute_tensor(&tensor![[1, 2, 3]], &mesh, &[Placement::Shard(1)])?;
    ///     Ok(Piece::of_sharded("t", &t)?.offset().to_vec())
    /// })?;
    /// assert_eq!(offsets, [[0, 0], [0, 2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A tensor of partial values, which no rank has.
    #[torsh_tensor::names_caller(Self)]
    pub fn of_sharded(name: impl Into<String>, tensor: &ShardedTensor) -> Result<Piece> {
        let name = name.into();
        let mesh = tensor.mesh();
        let mut shape = tensor.shape().to_vec();
        let mut offset = vec![0; shape.len()];
        for (i, placement) in tensor.placements().iter().enumerate() {
            let d = match placement {
                Placement::Replicate => continue,
                Placement::Shard(d) => *d,
                Placement::Partial(_) => {
                    let why =
                        format!("{name} is {placement} over {mesh:?}: no rank has its values");
                    return Err(TorshError::invalid("Piece::of_sharded", why)
                        .with_hint("redistribute it to Shard or Replicate first"));
                }
            };
            let (coordinate, ranks) = (mesh.coordinate()[i], mesh.shape()[i]);
            let chunk = shape[d].div_ceil(ranks.max(1));
            let start = (coordinate * chunk).min(shape[d]);
            offset[d] += start;
            shape[d] = chunk.min(shape[d] - start);
        }
        Piece::new(name, tensor.shape(), offset, &tensor.to_local())
    }

    /// The piece that a parameter of a sharded model is; `None` for one that is whole.
    pub(super) fn of_parameter(name: &str, p: &Parameter) -> Result<Option<Piece>> {
        let Some(s) = sharding_of(p) else {
            return Ok(None);
        };
        let mut offset = vec![0; s.global_shape.len()];
        if let Some(first) = offset.first_mut() {
            *first = s.start;
        }
        Piece::new(name, s.global_shape, offset, p.tensor()).map(Some)
    }

    /// The same part where what was the whole is itself share `index` of `count` equal ones along a dimension.
    pub(super) fn within_share(mut self, dim: usize, index: usize, count: usize) -> Result<Piece> {
        let Some(n) = self.global_shape.get_mut(dim) else {
            return Err(TorshError::shape(
                "Piece",
                format!("{} has no dimension {dim} to be divided", self.name),
            ));
        };
        if let Some(offset) = self.offset.get_mut(dim) {
            *offset += index * *n;
        }
        *n *= count;
        Ok(self)
    }

    /// Returns the tensor's name.
    ///
    /// ```
    /// use torsh_distributed::checkpoint::Piece;
    /// use torsh_tensor::tensor;
    ///
    /// let piece = Piece::whole("weight", &tensor![1, 2]);
    /// assert_eq!((piece.name(), piece.dtype()), ("weight", torsh_tensor::DType::I64));
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The shape of the whole tensor.
    pub fn global_shape(&self) -> &[usize] {
        &self.global_shape
    }

    /// Where the part begins, in each dimension.
    pub fn offset(&self) -> &[usize] {
        &self.offset
    }

    /// The part that this rank holds.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The dtype.
    pub fn dtype(&self) -> DType {
        self.tensor.dtype()
    }
}

/// Whether a box is within a shape.
pub(super) fn within(global: &[usize], offset: &[usize], shape: &[usize]) -> bool {
    let dims = global.iter().zip(offset).zip(shape);
    global.len() == offset.len()
        && global.len() == shape.len()
        && dims
            .into_iter()
            .all(|((&all, &from), &n)| from.checked_add(n).is_some_and(|end| end <= all))
}

/// A thing of whose tensors this rank holds parts: a sharded model or tensor.
///
/// ```
/// use torsh_distributed::checkpoint::{Piece, Pieces};
/// use torsh_tensor::{Result, Tensor, tensor};
///
/// struct Row(Tensor);
/// impl Pieces for Row {
///     fn pieces(&self) -> Result<Vec<Piece>> {
///         Ok(vec![Piece::new("table", [4, 2], [1, 0], &self.0)?])
///     }
/// }
/// assert_eq!(Row(tensor![[1.0, 2.0]]).pieces()?[0].offset(), [1, 0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait Pieces {
    /// The parts, whose tensors are those of the thing itself: a checkpoint finds them by identity among the tensors of
    /// models and optimizers.
    fn pieces(&self) -> Result<Vec<Piece>>;
}

impl Pieces for [Piece] {
    fn pieces(&self) -> Result<Vec<Piece>> {
        Ok(self.to_vec())
    }
}

impl Pieces for Vec<Piece> {
    fn pieces(&self) -> Result<Vec<Piece>> {
        Ok(self.clone())
    }
}

impl<P: Pieces + ?Sized> Pieces for &P {
    fn pieces(&self) -> Result<Vec<Piece>> {
        (**self).pieces()
    }
}
