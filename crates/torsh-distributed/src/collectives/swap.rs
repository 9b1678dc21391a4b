//! All to all.

use super::gather::{new_like, same_dtype};
use super::*;
use crate::comm::{Call, Memory, all_done};
use torsh_tensor::DType;

impl ProcessGroup {
    /// Sends each rank one tensor and receives one of each (`torch.distributed.all_to_all`). They may differ in shape and
    /// dtype.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// use torsh_tensor::tensor;
    ///
    /// let got = spawn(2, |g| {
    ///     let r = g.rank() as i64;
    ///     g.all_to_all(&[tensor![r, 0], tensor![r, 1]])
    /// })?;
    /// assert_eq!(got[1], [tensor![0, 1], tensor![1, 1]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Not one tensor for each rank; and as [`ProcessGroup::broadcast_`].
    #[torsh_tensor::names_caller]
    pub fn all_to_all(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        const OP: &str = "all_to_all";
        let caller = Location::caller();
        self.one_each(OP, inputs.len())?;
        let x = Operand::all(OP, inputs, false, self)?;
        // The shapes go first, so that each rank can make room.
        let shapes: Vec<(u8, Vec<usize>)> = inputs
            .iter()
            .map(|t| (t.dtype() as u8, t.dims().to_vec()))
            .collect();
        let own = serde_json::to_vec(&shapes).map_err(|e| TorshError::format(OP, e.to_string()))?;
        let all = self.all_gather_bytes(OP, caller, "shapes", own)?;
        let outs: Vec<Tensor> = all
            .iter()
            .map(|bytes| {
                let unread = |why: String| TorshError::format(OP, why);
                let of_rank: Vec<(u8, Vec<usize>)> =
                    serde_json::from_slice(bytes).map_err(|e| unread(e.to_string()))?;
                let mine = of_rank.get(self.rank());
                let (dtype, shape) =
                    mine.ok_or_else(|| unread("a rank sent too few shapes".into()))?;
                let dtype = DType::ALL.into_iter().find(|d| *d as u8 == *dtype);
                let dtype = dtype.ok_or_else(|| unread("a rank sent no dtype".into()))?;
                let like = Tensor::empty(&[0], dtype, inputs[0].device())?;
                new_like(&like, &torsh_tensor::Shape::new(shape))
            })
            .collect::<Result<_>>()?;
        let into = Operand::all(OP, &outs, true, self)?;
        let text = |seq| format!("{OP} #{seq}");
        self.submit(
            OP,
            Order::Collective,
            caller,
            text,
            move |call| async move {
                let operands: Vec<&Operand> = x.iter().chain(&into).collect();
                let m = call.open(&operands).await?;
                let (send, receive) = m.split_at(x.len());
                call.swap(send, receive).await
            },
        )?
        .wait()?;
        Ok(outs)
    }

    /// Sends each rank a block of `input` along its first dimension and receives one of each in `out`
    /// (`torch.distributed.all_to_all_single`). All blocks are equal.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// use torsh_tensor::{tensor, zeros};
    ///
    /// let got = spawn(2, |g| {
    ///     let input = tensor![1.0, 2.0].mul(g.rank() as f64 + 1.0)?;
    ///     g.all_to_all_single_(&zeros(&[2]), &input)
    /// })?;
    /// assert_eq!((&got[0], &got[1]), (&tensor![1.0, 2.0], &tensor![2.0, 4.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A first dimension that the ranks do not divide, or of different tensors; and as [`ProcessGroup::broadcast_`].
    #[torsh_tensor::names_caller]
    pub fn all_to_all_single_(&self, out: &Tensor, input: &Tensor) -> Result<Tensor> {
        self.all_to_all_single_async(out, input)?.wait()?;
        Ok(out.clone())
    }

    /// [`ProcessGroup::all_to_all_single_`] that does not wait.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// use torsh_tensor::{tensor, zeros};
    ///
    /// let got = spawn(2, |g| {
    ///     let out = zeros(&[2]);
    ///     let work = g.all_to_all_single_async(&out, &tensor![1.0, 2.0].mul(g.rank() as f64 + 1.0)?)?;
    ///     work.wait()?;
    ///     Ok(out)
    /// })?;
    /// assert_eq!(got[1], tensor![2.0, 4.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProcessGroup::all_to_all_single_`]; those of other ranks when the work is waited for.
    #[torsh_tensor::names_caller]
    pub fn all_to_all_single_async(&self, out: &Tensor, input: &Tensor) -> Result<Work> {
        const OP: &str = "all_to_all_single";
        let n = self.size();
        let splits = |what: &str, t: &Tensor| {
            let rows = rows_of(OP, what, t)?;
            if rows % n == 0 {
                return Ok(vec![rows / n; n]);
            }
            let message = format!(
                "the {n} ranks do not divide the {rows} rows of {what} {}",
                t.describe()
            );
            Err(TorshError::shape(OP, message)
                .with_hint("give the splits to all_to_all_single_with_"))
        };
        let (out_splits, in_splits) = (splits("the result", out)?, splits("the input", input)?);
        self.swap_rows(OP, out, input, &out_splits, &in_splits, Location::caller())
    }

    /// [`ProcessGroup::all_to_all_single_`] with blocks of different sizes: `in_splits[r]` rows of `input` go to rank `r`,
    /// and `out_splits[r]` rows of `out` come from there.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// use torsh_tensor::{tensor, zeros};
    ///
    /// let got = spawn(2, |g| match g.rank() {
    ///     0 => g.all_to_all_single_with_(&zeros(&[2]), &tensor![1.0, 2.0, 3.0], &[1, 1], &[1, 2]),
    ///     _ => g.all_to_all_single_with_(&zeros(&[2]), &tensor![4.0], &[2, 0], &[1, 0]),
    /// })?;
    /// assert_eq!((&got[0], &got[1]), (&tensor![1.0, 4.0], &tensor![2.0, 3.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Splits that are not one for each rank or not as many rows as the tensor has; sizes on which two ranks disagree; and
    /// as [`ProcessGroup::broadcast_`].
    #[torsh_tensor::names_caller]
    pub fn all_to_all_single_with_(
        &self,
        out: &Tensor,
        input: &Tensor,
        out_splits: &[usize],
        in_splits: &[usize],
    ) -> Result<Tensor> {
        const OP: &str = "all_to_all_single";
        self.swap_rows(OP, out, input, out_splits, in_splits, Location::caller())?
            .wait()?;
        Ok(out.clone())
    }

    #[track_caller]
    fn swap_rows(
        &self,
        op: &'static str,
        out: &Tensor,
        input: &Tensor,
        out_splits: &[usize],
        in_splits: &[usize],
        caller: &'static Location<'static>,
    ) -> Result<Work> {
        same_dtype(op, out, input)?;
        let check = |what: &str, t: &Tensor, splits: &[usize]| {
            self.one_each(op, splits.len())?;
            let rows = rows_of(op, what, t)?;
            let sum = splits.iter().try_fold(0usize, |a, &b| a.checked_add(b));
            if sum != Some(rows) {
                let message = format!(
                    "the splits {splits:?} of {what} {} do not give its {rows} rows",
                    t.describe()
                );
                return Err(TorshError::shape(op, message));
            }
            // Bytes of a row.
            Ok(t.numel().checked_div(rows).unwrap_or(0) * t.dtype().size())
        };
        let (out_row, in_row) = (
            check("the result", out, out_splits)?,
            check("the input", input, in_splits)?,
        );
        let into = Operand::new(op, out, true, self)?;
        let x = Operand::new(op, input, false, self)?;
        if into.overlaps(&x, None) {
            let message = format!(
                "the result {} and the input {} share memory",
                out.describe(),
                input.describe()
            );
            return Err(TorshError::invalid(op, message).with_hint("copy() one of them"));
        }
        let (out_splits, in_splits) = (out_splits.to_vec(), in_splits.to_vec());
        let dtype = input.dtype();
        let text = |seq| format!("{op} #{seq} {dtype}");
        self.submit(
            op,
            Order::Collective,
            caller,
            text,
            move |call| async move {
                let m = call.open(&[&into, &x]).await?;
                let cut = |m: &Memory, splits: &[usize], row: usize| -> Vec<Memory> {
                    let mut start = 0;
                    splits
                        .iter()
                        .map(|&rows| {
                            start += rows * row;
                            m.at(start - rows * row, rows * row)
                        })
                        .collect()
                };
                let receive = cut(&m[0], &out_splits, out_row);
                let send = cut(&m[1], &in_splits, in_row);
                call.swap(&send, &receive).await?;
                drop((send, receive));
                call.close(&[&into, &x], m).await
            },
        )
    }
}

/// The size of the first dimension.
fn rows_of(op: &'static str, what: &str, t: &Tensor) -> Result<usize> {
    t.dims().first().copied().ok_or_else(|| {
        let message = format!("{what} {} has no dimension to split", t.describe());
        TorshError::shape(op, message).with_hint("reshape it to one dimension")
    })
}

impl Call {
    /// A reduce-scatter of blocks that are memories of their own, of any sizes.
    pub(crate) async fn reduce_scatter_lists(
        &self,
        out: &Memory,
        blocks: &[Memory],
        dtype: DType,
        op: ReduceOp,
    ) -> Result<()> {
        let me = self.rank();
        self.exchange(Payload::Nothing, false).await?;
        let mut send = blocks.to_vec();
        send[me] = Memory::nothing(0);
        let receive: Vec<Memory> = (0..self.size())
            .map(|r| match r == me {
                true => Memory::nothing(0),
                false => self.scratch(out.bytes()),
            })
            .collect();
        let bytes = |all: &[Memory]| all.iter().map(Memory::bytes).sum();
        self.count(bytes(&send), bytes(&receive));
        let flights = self.messages(&send, &receive)?;
        self.pass();
        all_done(flights).await?;
        let inputs: Vec<Option<Memory>> = receive
            .into_iter()
            .enumerate()
            .map(|(r, m)| Some(if r == me { blocks[me].clone() } else { m }))
            .collect();
        out.reduce(op, dtype, &inputs)
    }
}
