//! Sequences of different lengths, padded or packed (`torch.nn.utils.rnn`).

use torsh_tensor::named::Named;
use torsh_tensor::{DType, Device, Result, Scalar, Tensor, TorshError, options};

/// Sequences of different lengths, one step behind the other without padding
/// (`torch.nn.utils.rnn.PackedSequence`).
///
/// Made by [`pack_padded_sequence`] and [`pack_sequence`], and taken by the recurrent layers'
/// `forward_packed`.
///
/// ```
/// # use torsh_nn::utils;
/// # use torsh_tensor::tensor;
/// let packed = utils::rnn::pack_sequence(&[tensor![1, 2, 3], tensor![4, 5]])?;
/// assert_eq!(packed.data, tensor![1, 4, 2, 5, 3]);
/// assert_eq!(packed.batch_sizes, tensor![2, 2, 1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PackedSequence {
    /// The elements `[sum of the lengths, ..]`: the first of every sequence, longest ones first,
    /// then the second of those that have one.
    pub data: Tensor,
    /// How many sequences have each step, an int64 tensor that never grows.
    pub batch_sizes: Tensor,
    /// Which sequences were put first, where they were sorted.
    pub sorted_indices: Option<Tensor>,
    /// Where each sequence went, where they were sorted.
    pub unsorted_indices: Option<Tensor>,
}

impl PackedSequence {
    /// The same sequences with other elements, as a layer makes of them. An error where their
    /// number is another one.
    ///
    /// ```
    /// # use torsh_nn::utils;
    /// # use torsh_tensor::tensor;
    /// let packed = utils::rnn::pack_sequence(&[tensor![1.0, 2.0], tensor![3.0]])?;
    /// let doubled = packed.with_data(packed.data.mul(2.0)?)?;
    /// assert_eq!(utils::rnn::unpack_sequence(&doubled)?, [tensor![2.0, 4.0], tensor![6.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn with_data(&self, data: Tensor) -> Result<PackedSequence> {
        if data.ndim() == 0 || data.dims()[0] != self.data.dims()[0] {
            return Err(TorshError::shape(
                "PackedSequence",
                format!(
                    "the sequences have {} elements, got {}",
                    self.data.dims()[0],
                    data.describe()
                ),
            ));
        }
        Ok(PackedSequence {
            data,
            ..self.clone()
        })
    }

    pub(crate) fn sizes(&self) -> Result<Vec<i64>> {
        self.batch_sizes.to_vec::<i64>()
    }
}

/// Lengths of sequences: a list of integers, or an integer tensor of one dimension.
///
/// ```
/// # use torsh_nn::utils;
/// # use torsh_tensor::tensor;
/// let x = tensor![[1, 3], [2, 0]];
/// let packed = utils::rnn::pack_padded_sequence(&x, &tensor![2, 1])?;
/// assert_eq!(packed.data, utils::rnn::pack_padded_sequence(&x, [2, 1])?.data);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct Lengths(Result<Vec<i64>>);

impl From<&Tensor> for Lengths {
    #[track_caller]
    fn from(t: &Tensor) -> Lengths {
        Lengths(
            match t.ndim() == 1 && !t.dtype().is_differentiable() && t.dtype() != DType::Bool {
                true => t.to_vec::<i64>(),
                false => Err(TorshError::invalid(
                    "lengths",
                    format!("they are integers in one dimension, got {}", t.describe()),
                )),
            },
        )
    }
}

impl From<Tensor> for Lengths {
    #[track_caller]
    fn from(t: Tensor) -> Lengths {
        Lengths::from(&t)
    }
}

macro_rules! lengths_from {
    ($($t:ty),*) => {$(
        impl From<&[$t]> for Lengths {
            fn from(v: &[$t]) -> Lengths {
                Lengths(Ok(v.iter().map(|&n| n as i64).collect()))
            }
        }
        impl<const N: usize> From<[$t; N]> for Lengths {
            fn from(v: [$t; N]) -> Lengths {
                Lengths::from(&v[..])
            }
        }
        impl<const N: usize> From<&[$t; N]> for Lengths {
            fn from(v: &[$t; N]) -> Lengths {
                Lengths::from(&v[..])
            }
        }
        impl From<Vec<$t>> for Lengths {
            fn from(v: Vec<$t>) -> Lengths {
                Lengths::from(&v[..])
            }
        }
        impl From<&Vec<$t>> for Lengths {
            fn from(v: &Vec<$t>) -> Lengths {
                Lengths::from(&v[..])
            }
        }
    )*};
}
lengths_from!(i64, i32, usize);

options! {
    /// PyTorch's keyword arguments of [`pack_padded_sequence`].
    PackPaddedSequenceOptions {
        /// Whether the input is `[batch, steps, ..]` rather than `[steps, batch, ..]`.
        batch_first: bool = false;
        /// Whether the sequences must come longest first; otherwise they are sorted.
        enforce_sorted: bool = true;
    }
}

options! {
    /// PyTorch's keyword arguments of [`pack_sequence`].
    PackSequenceOptions {
        /// Whether the sequences must come longest first; otherwise they are sorted.
        enforce_sorted: bool = true;
    }
}

options! {
    /// PyTorch's keyword arguments of [`pad_packed_sequence`].
    PadPackedSequenceOptions {
        /// Whether the output is `[batch, steps, ..]` rather than `[steps, batch, ..]`.
        batch_first: bool = false;
        /// What is put behind the end of sequences.
        padding_value: f64 = 0.0;
        /// How many steps the output has, at least those of the longest sequence.
        total_length: Option<usize> = None, usize => Some;
    }
}

/// On which side of a sequence padding is put.
///
/// ```
/// # use torsh_nn::utils;
/// # use torsh_tensor::tensor;
/// let options = utils::rnn::PadSequenceOptions::new().padding_side(utils::rnn::PaddingSide::Left);
/// let padded = utils::rnn::pad_sequence_with(&[tensor![1, 2], tensor![3]], options)?;
/// assert_eq!(padded, tensor![[1, 0], [2, 3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PaddingSide {
    /// Behind it.
    #[default]
    Right,
    /// Ahead of it.
    Left,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    PaddingSide, "padding_side",
    "right" => PaddingSide::Right,
    "left" => PaddingSide::Left,
}

options! {
    /// PyTorch's keyword arguments of [`pad_sequence`].
    PadSequenceOptions {
        /// Whether the output is `[batch, steps, ..]` rather than `[steps, batch, ..]`.
        batch_first: bool = false;
        /// What fills the shorter sequences up.
        padding_value: f64 = 0.0;
        /// On which side.
        padding_side: PaddingSide = PaddingSide::Right, impl Into<PaddingSide> => Into::into;
    }
}

options! {
    /// PyTorch's keyword arguments of [`unpad_sequence`].
    UnpadSequenceOptions {
        /// Whether the input is `[batch, steps, ..]` rather than `[steps, batch, ..]`.
        batch_first: bool = false;
    }
}

/// The rows of a matrix of sequences that have elements, in packed order; and how many there are
/// of each step. Lengths do not grow.
fn order(lengths: &[i64], row: impl Fn(i64, i64) -> i64) -> (Vec<i64>, Vec<i64>) {
    let (mut rows, mut sizes) = (Vec::new(), Vec::new());
    for t in 0..lengths.first().copied().unwrap_or(0) {
        let n = lengths.partition_point(|&length| length > t) as i64;
        rows.extend((0..n).map(|i| row(t, i)));
        sizes.push(n);
    }
    (rows, sizes)
}

fn indices(v: &[i64], like: &Tensor) -> Result<Tensor> {
    Tensor::from_slice(v, [v.len()], DType::I64, like.device())
}

/// Numbers that the host reads again, on the CPU whatever the default device.
fn on_cpu(v: &[i64]) -> Result<Tensor> {
    Tensor::from_slice(v, [v.len()], DType::I64, Device::Cpu)
}

/// The first two dimensions as one.
fn flattened(t: &Tensor) -> Result<Tensor> {
    t.flatten_dims(0, 1)
}

/// Sequences `[steps, batch, ..]`, padded to the same length, packed without their padding
/// (`torch.nn.utils.rnn.pack_padded_sequence`). An error where they do not come longest first.
///
/// ```
/// use torsh_nn::utils::rnn::pack_padded_sequence;
/// use torsh_tensor::tensor;
/// let packed = pack_padded_sequence(&tensor![[1, 3], [2, 0]], [2, 1])?;
/// assert_eq!(packed.data, tensor![1, 3, 2]);
/// assert_eq!(packed.batch_sizes, tensor![2, 1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn pack_padded_sequence(input: &Tensor, lengths: impl Into<Lengths>) -> Result<PackedSequence> {
    pack_padded_sequence_with(input, lengths, PackPaddedSequenceOptions::default())
}

/// [`pack_padded_sequence`] of another layout, or of sequences that are not sorted.
///
/// An error for other than one length for each sequence, for lengths below 1 or above the number of
/// steps.
///
/// ```
/// # use torsh_nn::utils;
/// # use torsh_tensor::tensor;
/// let options = utils::rnn::PackPaddedSequenceOptions::new().batch_first(true).enforce_sorted(false);
/// let packed = utils::rnn::pack_padded_sequence_with(&tensor![[3, 0], [1, 2]], [1, 2], options)?;
/// assert_eq!(packed.data, tensor![1, 3, 2]);
/// assert_eq!(packed.sorted_indices, Some(tensor![1, 0]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn pack_padded_sequence_with(
    input: &Tensor,
    lengths: impl Into<Lengths>,
    options: PackPaddedSequenceOptions,
) -> Result<PackedSequence> {
    let invalid = |message: String| TorshError::invalid("pack_padded_sequence", message);
    let mut lengths = lengths
        .into()
        .0
        .map_err(|e| e.renamed("pack_padded_sequence"))?;
    if input.ndim() < 2 || input.numel() == 0 {
        return Err(invalid(format!(
            "Cannot pack empty tensors, nor those of fewer than two dimensions, got {}",
            input.describe()
        )));
    }
    let (b, t) = if options.batch_first { (0, 1) } else { (1, 0) };
    let (batch, steps) = (input.dims()[b] as i64, input.dims()[t] as i64);
    if lengths.len() as i64 != batch {
        return Err(invalid(format!(
            "Expected `len(lengths)` to be equal to batch_size, but got {} (batch_size={batch})",
            lengths.len()
        )));
    }
    let mut sorted: Option<Vec<i64>> = None;
    if !options.enforce_sorted {
        let mut places: Vec<i64> = (0..batch).collect();
        places.sort_by_key(|&i| std::cmp::Reverse(lengths[i as usize]));
        lengths = places.iter().map(|&i| lengths[i as usize]).collect();
        sorted = Some(places);
    }
    if lengths.windows(2).any(|w| w[0] < w[1]) {
        return Err(invalid(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is true"
                .into(),
        )
        .with_hint("PackPaddedSequenceOptions::new().enforce_sorted(false) sorts the sequences"));
    }
    if lengths.last().is_some_and(|&n| n <= 0) {
        return Err(invalid(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
                .into(),
        ));
    }
    if lengths.first().is_some_and(|&n| n > steps) {
        return Err(invalid(format!(
            "a sequence of length {} does not fit into {steps} steps",
            lengths[0]
        )));
    }
    let place = |i: i64| sorted.as_ref().map_or(i, |s| s[i as usize]);
    let (rows, sizes) = order(&lengths, |step, i| match options.batch_first {
        true => place(i) * steps + step,
        false => step * batch + place(i),
    });
    let back = sorted.as_ref().map(|sorted| {
        let mut back = vec![0; sorted.len()];
        sorted
            .iter()
            .enumerate()
            .for_each(|(at, &i)| back[i as usize] = at as i64);
        back
    });
    let permutation = |v: Option<Vec<i64>>| v.map(|v| indices(&v, input)).transpose();
    Ok(PackedSequence {
        data: flattened(input)?.index_select(0, &indices(&rows, input)?)?,
        batch_sizes: on_cpu(&sizes)?,
        sorted_indices: permutation(sorted)?,
        unsorted_indices: permutation(back)?,
    })
}

/// Packed sequences with zeros behind the end of the shorter ones: `[steps, batch, ..]`, and their
/// lengths, in the order in which they were packed
/// (`torch.nn.utils.rnn.pad_packed_sequence`).
///
/// ```
/// use torsh_nn::utils::rnn::{pack_sequence, pad_packed_sequence};
/// use torsh_tensor::tensor;
/// let packed = pack_sequence(&[tensor![1.0, 2.0], tensor![3.0]])?;
/// let (padded, lengths) = pad_packed_sequence(&packed)?;
/// assert_eq!(padded, tensor![[1.0, 3.0], [2.0, 0.0]]);
/// assert_eq!(lengths, tensor![2, 1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn pad_packed_sequence(sequence: &PackedSequence) -> Result<(Tensor, Tensor)> {
    pad_packed_sequence_with(sequence, PadPackedSequenceOptions::default())
}

/// [`pad_packed_sequence`] to another layout, with another number or to more steps. An error for
/// fewer steps than the longest sequence has.
///
/// ```
/// # use torsh_nn::utils;
/// # use torsh_tensor::tensor;
/// let packed = utils::rnn::pack_sequence(&[tensor![1, 2], tensor![3]])?;
/// let options = utils::rnn::PadPackedSequenceOptions::new().batch_first(true).padding_value(-1.0).total_length(3);
/// let (padded, _) = utils::rnn::pad_packed_sequence_with(&packed, options)?;
/// assert_eq!(padded, tensor![[1, 2, -1], [3, -1, -1]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn pad_packed_sequence_with(
    sequence: &PackedSequence,
    options: PadPackedSequenceOptions,
) -> Result<(Tensor, Tensor)> {
    let sizes = sequence.sizes()?;
    let batch = sizes.first().copied().unwrap_or(0);
    let steps = options.total_length.unwrap_or(sizes.len());
    if steps < sizes.len() {
        return Err(TorshError::invalid(
            "pad_packed_sequence",
            format!(
                "Expected total_length to be at least the length of the longest sequence in input, but got total_length={steps} and max sequence length being {}",
                sizes.len()
            ),
        ));
    }
    let data = &sequence.data;
    let unsorted = sequence
        .unsorted_indices
        .as_ref()
        .map(Tensor::to_vec::<i64>)
        .transpose()?;
    let lengths: Vec<i64> = (0..batch)
        .map(|i| sizes.partition_point(|&n| n > i) as i64)
        .collect();
    // Where sequence i of the packed order goes.
    let mut places: Vec<i64> = (0..batch).collect();
    let mut lengths_out = lengths.clone();
    if let Some(unsorted) = unsorted {
        for (place, &i) in unsorted.iter().enumerate() {
            places[i as usize] = place as i64;
            lengths_out[place] = lengths[i as usize];
        }
    }
    let (rows, _) = order(&lengths, |step, i| match options.batch_first {
        true => places[i as usize] * steps as i64 + step,
        false => step * batch + places[i as usize],
    });
    let sides = match options.batch_first {
        true => [batch as usize, steps],
        false => [steps, batch as usize],
    };
    let padded = spread(data, &rows, sides, Scalar::Float(options.padding_value))?;
    Ok((padded, on_cpu(&lengths_out)?))
}

/// Rows put in the given places of a tensor filled with a value.
fn spread(rows: &Tensor, places: &[i64], sides: [usize; 2], value: Scalar) -> Result<Tensor> {
    let mut shape = vec![sides[0] * sides[1]];
    shape.extend_from_slice(&rows.dims()[1..]);
    let out = Tensor::full(&shape, value, rows.dtype(), rows.device())?.index_copy(
        0,
        &indices(places, rows)?,
        rows,
    )?;
    shape.splice(..1, sides);
    out.reshape(shape)
}

/// Sequences `[length, ..]` along a new dimension 1, with zeros behind the end of the shorter ones:
/// `[steps, batch, ..]` (`torch.nn.utils.rnn.pad_sequence`).
///
/// ```
/// use torsh_nn::utils::rnn::pad_sequence;
/// use torsh_tensor::tensor;
/// let padded = pad_sequence(&[tensor![1.0], tensor![2.0, 3.0]])?;
/// assert_eq!(padded, tensor![[1.0, 2.0], [0.0, 3.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn pad_sequence(sequences: &[Tensor]) -> Result<Tensor> {
    pad_sequence_with(sequences, PadSequenceOptions::default())
}

/// [`pad_sequence`] to another layout, with another number or on the other side. An error for no
/// sequences, and for 0-d tensors.
///
/// ```
/// # use torsh_nn::utils;
/// # use torsh_tensor::tensor;
/// let options = utils::rnn::PadSequenceOptions::new().batch_first(true).padding_value(9.0);
/// assert_eq!(utils::rnn::pad_sequence_with(&[tensor![1, 2], tensor![3]], options)?, tensor![[1, 2], [3, 9]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn pad_sequence_with(sequences: &[Tensor], options: PadSequenceOptions) -> Result<Tensor> {
    let named = |e: TorshError| e.renamed("pad_sequence");
    if sequences.is_empty() || sequences.iter().any(|s| s.ndim() == 0) {
        return Err(TorshError::invalid(
            "pad_sequence",
            "received an empty list of sequences, or one without dimensions",
        ));
    }
    let side = options.padding_side.known();
    let side = side.map_err(|e| e.renamed("pad_sequence"))?;
    let lengths: Vec<usize> = sequences.iter().map(|s| s.dims()[0]).collect();
    let (batch, steps) = (lengths.len(), lengths.iter().copied().max().unwrap_or(0));
    let mut rows = Vec::with_capacity(lengths.iter().sum());
    for (i, &length) in lengths.iter().enumerate() {
        let first = match side {
            PaddingSide::Right | PaddingSide::Unknown(_) => 0,
            PaddingSide::Left => steps - length,
        };
        rows.extend(
            (first..first + length).map(|step| match options.batch_first {
                true => (i * steps + step) as i64,
                false => (step * batch + i) as i64,
            }),
        );
    }
    let sides = match options.batch_first {
        true => [batch, steps],
        false => [steps, batch],
    };
    let all = Tensor::cat(sequences, 0).map_err(named)?;
    spread(&all, &rows, sides, Scalar::Float(options.padding_value)).map_err(named)
}

/// Sequences `[length, ..]` packed one step behind the other
/// (`torch.nn.utils.rnn.pack_sequence`). An error where they do not come longest first.
///
/// ```
/// use torsh_nn::utils::rnn::pack_sequence;
/// use torsh_tensor::tensor;
/// let packed = pack_sequence(&[tensor![1, 2, 3], tensor![4, 5], tensor![6]])?;
/// assert_eq!(packed.data, tensor![1, 4, 6, 2, 5, 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn pack_sequence(sequences: &[Tensor]) -> Result<PackedSequence> {
    pack_sequence_with(sequences, PackSequenceOptions::default())
}

/// [`pack_sequence`] of sequences that are not sorted.
///
/// ```
/// # use torsh_nn::utils;
/// # use torsh_tensor::tensor;
/// let options = utils::rnn::PackSequenceOptions::new().enforce_sorted(false);
/// let packed = utils::rnn::pack_sequence_with(&[tensor![1], tensor![2, 3]], options)?;
/// assert_eq!(packed.data, tensor![2, 1, 3]);
/// assert_eq!(utils::rnn::unpack_sequence(&packed)?, [tensor![1], tensor![2, 3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn pack_sequence_with(
    sequences: &[Tensor],
    options: PackSequenceOptions,
) -> Result<PackedSequence> {
    let lengths: Vec<usize> = sequences
        .iter()
        .map(|s| s.dims().first().copied().unwrap_or(0))
        .collect();
    pack_padded_sequence_with(
        &pad_sequence(sequences)?,
        lengths,
        PackPaddedSequenceOptions::new().enforce_sorted(options.enforce_sorted),
    )
}

/// The sequences of a padded tensor `[steps, batch, ..]`, without their padding
/// (`torch.nn.utils.rnn.unpad_sequence`).
///
/// ```
/// use torsh_nn::utils::rnn::unpad_sequence;
/// use torsh_tensor::tensor;
/// let sequences = unpad_sequence(&tensor![[1, 3], [2, 0]], [2, 1])?;
/// assert_eq!(sequences, [tensor![1, 2], tensor![3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn unpad_sequence(
    padded_sequences: &Tensor,
    lengths: impl Into<Lengths>,
) -> Result<Vec<Tensor>> {
    unpad_sequence_with(padded_sequences, lengths, UnpadSequenceOptions::default())
}

/// [`unpad_sequence`] of another layout. An error for lengths that do not fit.
///
/// ```
/// # use torsh_nn::utils;
/// # use torsh_tensor::tensor;
/// let options = utils::rnn::UnpadSequenceOptions::new().batch_first(true);
/// let sequences = utils::rnn::unpad_sequence_with(&tensor![[1, 2], [3, 0]], [2, 1], options)?;
/// assert_eq!(sequences, [tensor![1, 2], tensor![3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn unpad_sequence_with(
    padded_sequences: &Tensor,
    lengths: impl Into<Lengths>,
    options: UnpadSequenceOptions,
) -> Result<Vec<Tensor>> {
    let lengths = lengths.into().0.map_err(|e| e.renamed("unpad_sequence"))?;
    let by_sequence = match options.batch_first || padded_sequences.ndim() < 2 {
        true => padded_sequences.clone(),
        false => padded_sequences.transpose(0, 1)?,
    };
    let fits = match by_sequence.dims() {
        [batch, steps, ..] => {
            *batch == lengths.len() && lengths.iter().all(|n| (0..=*steps as i64).contains(n))
        }
        _ => false,
    };
    if !fits {
        return Err(TorshError::invalid(
            "unpad_sequence",
            format!(
                "lengths {lengths:?} are not those of the sequences of {}",
                padded_sequences.describe()
            ),
        ));
    }
    let sequence = |(i, &n): (usize, &i64)| by_sequence.select(0, i)?.narrow(0, 0, n);
    lengths.iter().enumerate().map(sequence).collect()
}

/// The sequences of a packed one (`torch.nn.utils.rnn.unpack_sequence`).
///
/// ```
/// use torsh_nn::utils::rnn::{pack_sequence, unpack_sequence};
/// use torsh_tensor::tensor;
/// let sequences = [tensor![1, 2, 3], tensor![4, 5]];
/// assert_eq!(unpack_sequence(&pack_sequence(&sequences)?)?, sequences);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn unpack_sequence(packed_sequences: &PackedSequence) -> Result<Vec<Tensor>> {
    let options = PadPackedSequenceOptions::new().batch_first(true);
    let (padded, lengths) = pad_packed_sequence_with(packed_sequences, options)?;
    unpad_sequence_with(
        &padded,
        &lengths,
        UnpadSequenceOptions::new().batch_first(true),
    )
}

/// The permutation that undoes another (`torch.nn.utils.rnn.invert_permutation`): `[n]` indices of int64, each from 0 to
/// `n - 1` once, as [`PackedSequence`] has them.
///
/// ```
/// # use torsh_nn::utils::rnn::invert_permutation;
/// # use torsh_tensor::tensor;
/// assert_eq!(invert_permutation(&tensor![2, 0, 3, 1])?, tensor![1, 3, 0, 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A tensor that is not one-dimensional or not of int64, and indices out of range.
#[torsh_tensor::names_caller]
pub fn invert_permutation(permutation: &Tensor) -> Result<Tensor> {
    let n = permutation.numel() as i64;
    let places = torsh_tensor::arange(0, n, 1).to_device(permutation.device())?;
    permutation
        .copy()?
        .scatter(0, permutation, &places)
        .map_err(|e| e.renamed("invert_permutation"))
}
