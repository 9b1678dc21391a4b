//! The methods of [`ProcessGroup`] as functions on the default group.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use torsh_tensor::{Result, Tensor};

use super::P2POp;
#[allow(unused_imports, reason = "the documentation links to it")]
use crate::ProcessGroup;
use crate::init::world;
use crate::reduce::ReduceOp;
use crate::work::Work;

macro_rules! on_the_default_group {
    ($(
        $(#[$example:meta])+
        $name:ident $(<$($p:ident: $b:path $(, $b2:path)?);+>)? ($($arg:ident: $t:ty),*) -> $r:ty;
    )*) => {$(
        #[doc = concat!("[`ProcessGroup::", stringify!($name), "`] on the default group, [`world`].")]
        ///
        $(#[$example])+
        ///
        /// # Errors
        #[doc = concat!("As [`ProcessGroup::", stringify!($name), "`], and if there is no default group.")]
        #[track_caller]
        pub fn $name $(<$($p: $b $(+ $b2)?),+>)? ($($arg: $t),*) -> $r {
            world()?.$name($($arg),*)
        }
    )*};
}

on_the_default_group! {
    /// ```
    /// # use torsh_distributed::{ReduceOp, all_reduce_, spawn};
    /// # use torsh_tensor::tensor;
    /// let sums = spawn(2, |g| all_reduce_(&tensor![1, g.rank() as i64], ReduceOp::Sum))?;
    /// assert_eq!(sums[0], tensor![2, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    all_reduce_(t: &Tensor, op: ReduceOp) -> Result<Tensor>;
    /// ```
    /// # use torsh_distributed::{ReduceOp, all_reduce_async, spawn};
    /// # use torsh_tensor::tensor;
    /// let largest = spawn(2, |g| {
    ///     let t = tensor![g.rank() as i64];
    ///     all_reduce_async(&t, ReduceOp::Max)?.wait()?;
    ///     Ok(t)
    /// })?;
    /// assert_eq!(largest[0], tensor![1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    all_reduce_async(t: &Tensor, op: ReduceOp) -> Result<Work>;
    /// ```
    /// # use torsh_distributed::{ReduceOp, reduce_, spawn};
    /// # use torsh_tensor::tensor;
    /// let t = spawn(2, |_| reduce_(&tensor![3], 1, ReduceOp::Product))?;
    /// assert_eq!((&t[0], &t[1]), (&tensor![3], &tensor![9]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    reduce_(t: &Tensor, dst: usize, op: ReduceOp) -> Result<Tensor>;
    /// ```
    /// # use torsh_distributed::{ReduceOp, reduce_async, spawn};
    /// # use torsh_tensor::tensor;
    /// let t = spawn(2, |_| {
    ///     let t = tensor![3];
    ///     reduce_async(&t, 0, ReduceOp::Sum)?.wait()?;
    ///     Ok(t)
    /// })?;
    /// assert_eq!((&t[0], &t[1]), (&tensor![6], &tensor![3]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    reduce_async(t: &Tensor, dst: usize, op: ReduceOp) -> Result<Work>;
    /// ```
    /// # use torsh_distributed::{broadcast_, spawn};
    /// # use torsh_tensor::tensor;
    /// let all = spawn(3, |g| broadcast_(&tensor![g.rank() as i64], 2))?;
    /// assert!(all.iter().all(|t| *t == tensor![2]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    broadcast_(t: &Tensor, src: usize) -> Result<Tensor>;
    /// ```
    /// # use torsh_distributed::{broadcast_async, spawn};
    /// # use torsh_tensor::tensor;
    /// let all = spawn(2, |g| {
    ///     let t = tensor![g.rank() as i64];
    ///     broadcast_async(&t, 1)?.wait()?;
    ///     Ok(t)
    /// })?;
    /// assert_eq!(all[0], tensor![1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    broadcast_async(t: &Tensor, src: usize) -> Result<Work>;
    /// ```
    /// # use torsh_distributed::{all_gather, spawn};
    /// # use torsh_tensor::tensor;
    /// let all = spawn(2, |g| all_gather(&tensor![g.rank() as i64]))?;
    /// assert_eq!(all[1], [tensor![0], tensor![1]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    all_gather(t: &Tensor) -> Result<Vec<Tensor>>;
    /// ```
    /// # use torsh_distributed::{all_gather_into_, spawn};
    /// # use torsh_tensor::{tensor, zeros};
    /// let all = spawn(2, |g| all_gather_into_(&zeros(&[2]), &tensor![g.rank() as f64]))?;
    /// assert_eq!(all[0], tensor![0.0, 1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    all_gather_into_(out: &Tensor, input: &Tensor) -> Result<Tensor>;
    /// ```
    /// # use torsh_distributed::{all_gather_into_async, spawn};
    /// # use torsh_tensor::{tensor, zeros};
    /// let all = spawn(2, |g| {
    ///     let out = zeros(&[2]);
    ///     all_gather_into_async(&out, &tensor![g.rank() as f64])?.wait()?;
    ///     Ok(out)
    /// })?;
    /// assert_eq!(all[0], tensor![0.0, 1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    all_gather_into_async(out: &Tensor, input: &Tensor) -> Result<Work>;
    /// ```
    /// # use torsh_distributed::{ReduceOp, reduce_scatter_, spawn};
    /// # use torsh_tensor::{tensor, zeros};
    /// let own = spawn(2, |_| reduce_scatter_(&zeros(&[1]), &tensor![1.0, 2.0], ReduceOp::Sum))?;
    /// assert_eq!((&own[0], &own[1]), (&tensor![2.0], &tensor![4.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    reduce_scatter_(out: &Tensor, input: &Tensor, op: ReduceOp) -> Result<Tensor>;
    /// ```
    /// # use torsh_distributed::{ReduceOp, reduce_scatter_async, spawn};
    /// # use torsh_tensor::{tensor, zeros};
    /// let own = spawn(2, |_| {
    ///     let out = zeros(&[1]);
    ///     reduce_scatter_async(&out, &tensor![1.0, 2.0], ReduceOp::Avg)?.wait()?;
    ///     Ok(out)
    /// })?;
    /// assert_eq!((&own[0], &own[1]), (&tensor![1.0], &tensor![2.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    reduce_scatter_async(out: &Tensor, input: &Tensor, op: ReduceOp) -> Result<Work>;
    /// ```
    /// # use torsh_distributed::{ReduceOp, reduce_scatter, spawn};
    /// # use torsh_tensor::tensor;
    /// let own = spawn(2, |_| reduce_scatter(&[tensor![1], tensor![2, 3]], ReduceOp::Sum))?;
    /// assert_eq!((&own[0], &own[1]), (&tensor![2], &tensor![4, 6]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    reduce_scatter(inputs: &[Tensor], op: ReduceOp) -> Result<Tensor>;
    /// ```
    /// # use torsh_distributed::{all_to_all, spawn};
    /// # use torsh_tensor::tensor;
    /// let got = spawn(2, |g| all_to_all(&[tensor![g.rank() as i64, 0], tensor![g.rank() as i64, 1]]))?;
    /// assert_eq!(got[1], [tensor![0, 1], tensor![1, 1]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    all_to_all(inputs: &[Tensor]) -> Result<Vec<Tensor>>;
    /// ```
    /// # use torsh_distributed::{all_to_all_single_, spawn};
    /// # use torsh_tensor::{tensor, zeros};
    /// let got = spawn(2, |g| {
    ///     let input = tensor![1.0, 2.0].mul(g.rank() as f64 + 1.0)?;
    ///     all_to_all_single_(&zeros(&[2]), &input)
    /// })?;
    /// assert_eq!((&got[0], &got[1]), (&tensor![1.0, 2.0], &tensor![2.0, 4.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    all_to_all_single_(out: &Tensor, input: &Tensor) -> Result<Tensor>;
    /// ```
    /// # use torsh_distributed::{all_to_all_single_async, spawn};
    /// # use torsh_tensor::{tensor, zeros};
    /// let got = spawn(2, |g| {
    ///     let (out, input) = (zeros(&[2]), tensor![1.0, 2.0].mul(g.rank() as f64 + 1.0)?);
    ///     all_to_all_single_async(&out, &input)?.wait()?;
    ///     Ok(out)
    /// })?;
    /// assert_eq!((&got[0], &got[1]), (&tensor![1.0, 2.0], &tensor![2.0, 4.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    all_to_all_single_async(out: &Tensor, input: &Tensor) -> Result<Work>;
    /// ```
    /// # use torsh_distributed::{all_to_all_single_with_, spawn};
    /// # use torsh_tensor::{tensor, zeros};
    /// let got = spawn(2, |g| match g.rank() {
    ///     0 => all_to_all_single_with_(&zeros(&[2]), &tensor![1.0, 2.0, 3.0], &[1, 1], &[1, 2]),
    ///     _ => all_to_all_single_with_(&zeros(&[2]), &tensor![4.0], &[2, 0], &[1, 0]),
    /// })?;
    /// assert_eq!((&got[0], &got[1]), (&tensor![1.0, 4.0], &tensor![2.0, 3.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    all_to_all_single_with_(out: &Tensor, input: &Tensor, out_splits: &[usize], in_splits: &[usize]) -> Result<Tensor>;
    /// ```
    /// # use torsh_distributed::{gather, spawn};
    /// # use torsh_tensor::tensor;
    /// let all = spawn(2, |g| gather(&tensor![g.rank() as i64], 1))?;
    /// assert_eq!(all[1].as_deref(), Some(&[tensor![0], tensor![1]][..]));
    /// assert!(all[0].is_none());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    gather(t: &Tensor, dst: usize) -> Result<Option<Vec<Tensor>>>;
    /// ```
    /// # use torsh_distributed::{scatter_, spawn};
    /// # use torsh_tensor::tensor;
    /// let own = spawn(2, |g| {
    ///     let all = [tensor![1, 2], tensor![3, 4]];
    ///     scatter_(&tensor![0, 0], (g.rank() == 0).then_some(&all[..]), 0)
    /// })?;
    /// assert_eq!(own[1], tensor![3, 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    scatter_(out: &Tensor, input: Option<&[Tensor]>, src: usize) -> Result<Tensor>;
    /// ```
    /// # use torsh_distributed::{recv_, send, spawn};
    /// # use torsh_tensor::tensor;
    /// let got = spawn(2, |g| {
    ///     let t = tensor![g.rank() as i64];
    ///     if g.rank() == 0 {
    ///         send(&tensor![7], 1)?;
    ///     } else {
    ///         recv_(&t, 0)?;
    ///     }
    ///     Ok(t)
    /// })?;
    /// assert_eq!(got[1], tensor![7]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    send(t: &Tensor, dst: usize) -> Result<()>;
    /// ```
    /// # use torsh_distributed::{recv_, send, spawn};
    /// # use torsh_tensor::tensor;
    /// let got = spawn(2, |g| {
    ///     let t = tensor![g.rank() as i64];
    ///     if g.rank() == 0 {
    ///         send(&tensor![7], 1)?;
    ///     } else {
    ///         recv_(&t, 0)?;
    ///     }
    ///     Ok(t)
    /// })?;
    /// assert_eq!(got[1], tensor![7]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    recv_(t: &Tensor, src: usize) -> Result<Tensor>;
    /// ```
    /// # use torsh_distributed::{isend, recv_, spawn};
    /// # use torsh_tensor::tensor;
    /// let got = spawn(2, |g| {
    ///     let t = tensor![g.rank() as i64];
    ///     if g.rank() == 0 {
    ///         isend(&tensor![7], 1)?.wait()?;
    ///     } else {
    ///         recv_(&t, 0)?;
    ///     }
    ///     Ok(t)
    /// })?;
    /// assert_eq!(got[1], tensor![7]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    isend(t: &Tensor, dst: usize) -> Result<Work>;
    /// ```
    /// # use torsh_distributed::{irecv_, send, spawn};
    /// # use torsh_tensor::tensor;
    /// let got = spawn(2, |g| {
    ///     let t = tensor![g.rank() as i64];
    ///     if g.rank() == 0 {
    ///         send(&tensor![7], 1)?;
    ///     } else {
    ///         irecv_(&t, 0)?.wait()?;
    ///     }
    ///     Ok(t)
    /// })?;
    /// assert_eq!(got[1], tensor![7]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    irecv_(t: &Tensor, src: usize) -> Result<Work>;
    /// ```
    /// # use torsh_distributed::{recv_tagged_, send_tagged, spawn};
    /// # use torsh_tensor::tensor;
    /// let got = spawn(2, |g| {
    ///     let t = tensor![g.rank() as i64];
    ///     if g.rank() == 0 {
    ///         send_tagged(&tensor![7], 1, 5)?;
    ///     } else {
    ///         recv_tagged_(&t, 0, 5)?;
    ///     }
    ///     Ok(t)
    /// })?;
    /// assert_eq!(got[1], tensor![7]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    send_tagged(t: &Tensor, dst: usize, tag: u32) -> Result<()>;
    /// ```
    /// # use torsh_distributed::{recv_tagged_, send_tagged, spawn};
    /// # use torsh_tensor::tensor;
    /// let got = spawn(2, |g| {
    ///     let t = tensor![g.rank() as i64];
    ///     if g.rank() == 0 {
    ///         send_tagged(&tensor![7], 1, 5)?;
    ///     } else {
    ///         recv_tagged_(&t, 0, 5)?;
    ///     }
    ///     Ok(t)
    /// })?;
    /// assert_eq!(got[1], tensor![7]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    recv_tagged_(t: &Tensor, src: usize, tag: u32) -> Result<Tensor>;
    /// ```
    /// # use torsh_distributed::{isend_tagged, recv_tagged_, spawn};
    /// # use torsh_tensor::tensor;
    /// let got = spawn(2, |g| {
    ///     let t = tensor![g.rank() as i64];
    ///     if g.rank() == 0 {
    ///         isend_tagged(&tensor![7], 1, 5)?.wait()?;
    ///     } else {
    ///         recv_tagged_(&t, 0, 5)?;
    ///     }
    ///     Ok(t)
    /// })?;
    /// assert_eq!(got[1], tensor![7]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    isend_tagged(t: &Tensor, dst: usize, tag: u32) -> Result<Work>;
    /// ```
    /// # use torsh_distributed::{irecv_tagged_, send_tagged, spawn};
    /// # use torsh_tensor::tensor;
    /// let got = spawn(2, |g| {
    ///     let t = tensor![g.rank() as i64];
    ///     if g.rank() == 0 {
    ///         send_tagged(&tensor![7], 1, 5)?;
    ///     } else {
    ///         irecv_tagged_(&t, 0, 5)?.wait()?;
    ///     }
    ///     Ok(t)
    /// })?;
    /// assert_eq!(got[1], tensor![7]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    irecv_tagged_(t: &Tensor, src: usize, tag: u32) -> Result<Work>;
    /// ```
    /// # use torsh_distributed::{P2POp, batch_isend_irecv, spawn};
    /// # use torsh_tensor::tensor;
    /// let got = spawn(2, |g| {
    ///     let (other, from) = (1 - g.rank(), tensor![0]);
    ///     let own = tensor![g.rank() as i64 + 5];
    ///     let works = batch_isend_irecv(&[P2POp::Send(own, other), P2POp::Receive(from.clone(), other)])?;
    ///     works.iter().try_for_each(|w| w.wait())?;
    ///     Ok(from)
    /// })?;
    /// assert_eq!((&got[0], &got[1]), (&tensor![6], &tensor![5]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    batch_isend_irecv(ops: &[P2POp]) -> Result<Vec<Work>>;
    /// ```
    /// # use torsh_distributed::{barrier, spawn};
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let came = AtomicUsize::new(0);
    /// let seen = spawn(3, |_| {
    ///     came.fetch_add(1, Ordering::SeqCst);
    ///     barrier()?;
    ///     Ok(came.load(Ordering::SeqCst))
    /// })?;
    /// assert_eq!(seen, [3, 3, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    barrier() -> Result<()>;
    /// ```
    /// # use torsh_distributed::{monitored_barrier, spawn};
    /// use std::time::Duration;
    ///
    /// let ranks = spawn(2, |g| monitored_barrier(Duration::from_secs(60)).map(|()| g.rank()))?;
    /// assert_eq!(ranks, [0, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    monitored_barrier(timeout: Duration) -> Result<()>;
    /// ```
    /// # use torsh_distributed::{ReduceOp, all_reduce_coalesced_, spawn};
    /// # use torsh_tensor::tensor;
    /// let sums = spawn(2, |_| {
    ///     let all = [tensor![1.0], tensor![2.0, 3.0]];
    ///     all_reduce_coalesced_(&all, ReduceOp::Sum)?;
    ///     Ok(all)
    /// })?;
    /// assert_eq!(sums[0], [tensor![2.0], tensor![4.0, 6.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    all_reduce_coalesced_(ts: &[Tensor], op: ReduceOp) -> Result<()>;
    /// ```
    /// # use torsh_distributed::{ReduceOp, all_reduce_coalesced_async, spawn};
    /// # use torsh_tensor::tensor;
    /// let sums = spawn(2, |_| {
    ///     let all = [tensor![1.0], tensor![2.0, 3.0]];
    ///     all_reduce_coalesced_async(&all, ReduceOp::Sum)?.wait()?;
    ///     Ok(all)
    /// })?;
    /// assert_eq!(sums[0], [tensor![2.0], tensor![4.0, 6.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    all_reduce_coalesced_async(ts: &[Tensor], op: ReduceOp) -> Result<Work>;
    /// ```
    /// # use torsh_distributed::{broadcast_coalesced_, spawn};
    /// # use torsh_tensor::tensor;
    /// let all = spawn(2, |g| {
    ///     let all = [tensor![g.rank() as i64], tensor![g.rank() as f64]];
    ///     broadcast_coalesced_(&all, 1)?;
    ///     Ok(all)
    /// })?;
    /// assert_eq!(all[0], [tensor![1], tensor![1.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    broadcast_coalesced_(ts: &[Tensor], src: usize) -> Result<()>;
    /// ```
    /// # use torsh_distributed::{broadcast_coalesced_async, spawn};
    /// # use torsh_tensor::tensor;
    /// let all = spawn(2, |g| {
    ///     let all = [tensor![g.rank() as i64], tensor![g.rank() as f64]];
    ///     broadcast_coalesced_async(&all, 0)?.wait()?;
    ///     Ok(all)
    /// })?;
    /// assert_eq!(all[1], [tensor![0], tensor![0.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    broadcast_coalesced_async(ts: &[Tensor], src: usize) -> Result<Work>;
    /// ```
    /// # use torsh_distributed::{all_gather_into_coalesced_, spawn};
    /// # use torsh_tensor::{tensor, zeros};
    /// let all = spawn(2, |g| {
    ///     let (outs, r) = ([zeros(&[2]), zeros(&[4])], g.rank() as f64);
    ///     all_gather_into_coalesced_(&outs, &[tensor![r], tensor![r, 7.0]])?;
    ///     Ok(outs)
    /// })?;
    /// assert_eq!(all[0], [tensor![0.0, 1.0], tensor![0.0, 7.0, 1.0, 7.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    all_gather_into_coalesced_(outs: &[Tensor], inputs: &[Tensor]) -> Result<()>;
    /// ```
    /// # use torsh_distributed::{all_gather_into_coalesced_async, spawn};
    /// # use torsh_tensor::{tensor, zeros};
    /// let all = spawn(2, |g| {
    ///     let (outs, r) = ([zeros(&[2]), zeros(&[4])], g.rank() as f64);
    ///     all_gather_into_coalesced_async(&outs, &[tensor![r], tensor![r, 7.0]])?.wait()?;
    ///     Ok(outs)
    /// })?;
    /// assert_eq!(all[0], [tensor![0.0, 1.0], tensor![0.0, 7.0, 1.0, 7.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    all_gather_into_coalesced_async(outs: &[Tensor], inputs: &[Tensor]) -> Result<Work>;
    /// ```
    /// # use torsh_distributed::{ReduceOp, reduce_scatter_coalesced_, spawn};
    /// # use torsh_tensor::{tensor, zeros};
    /// let own = spawn(2, |_| {
    ///     let outs = [zeros(&[1]), zeros(&[1])];
    ///     reduce_scatter_coalesced_(&outs, &[tensor![1.0, 2.0], tensor![3.0, 4.0]], ReduceOp::Sum)?;
    ///     Ok(outs)
    /// })?;
    /// assert_eq!(own[1], [tensor![4.0], tensor![8.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    reduce_scatter_coalesced_(outs: &[Tensor], inputs: &[Tensor], op: ReduceOp) -> Result<()>;
    /// ```
    /// # use torsh_distributed::{ReduceOp, reduce_scatter_coalesced_async, spawn};
    /// # use torsh_tensor::{tensor, zeros};
    /// let own = spawn(2, |_| {
    ///     let outs = [zeros(&[1]), zeros(&[1])];
    ///     let inputs = [tensor![1.0, 2.0], tensor![3.0, 4.0]];
    ///     reduce_scatter_coalesced_async(&outs, &inputs, ReduceOp::Sum)?.wait()?;
    ///     Ok(outs)
    /// })?;
    /// assert_eq!(own[0], [tensor![2.0], tensor![6.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    reduce_scatter_coalesced_async(outs: &[Tensor], inputs: &[Tensor], op: ReduceOp) -> Result<Work>;
    /// ```
    /// # use torsh_distributed::{broadcast_object, spawn};
    /// let names = spawn(2, |g| broadcast_object((g.rank() == 0).then_some(&"first".to_string()), 0))?;
    /// assert_eq!(names, ["first", "first"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    broadcast_object <T: Serialize, DeserializeOwned> (object: Option<&T>, src: usize) -> Result<T>;
    /// ```
    /// # use torsh_distributed::{all_gather_object, spawn};
    /// let all = spawn(2, |g| all_gather_object(&format!("rank {}", g.rank())))?;
    /// assert_eq!(all[1], ["rank 0", "rank 1"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    all_gather_object <T: Serialize, DeserializeOwned> (object: &T) -> Result<Vec<T>>;
    /// ```
    /// # use torsh_distributed::{gather_object, spawn};
    /// let all = spawn(2, |g| gather_object(&(10 * g.rank()), 0))?;
    /// assert_eq!(all, [Some(vec![0, 10]), None]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    gather_object <T: Serialize, DeserializeOwned> (object: &T, dst: usize) -> Result<Option<Vec<T>>>;
    /// ```
    /// # use torsh_distributed::{scatter_object, spawn};
    /// let own = spawn(2, |g| {
    ///     let all = ["first".to_string(), "second".to_string()];
    ///     scatter_object((g.rank() == 0).then_some(&all[..]), 0)
    /// })?;
    /// assert_eq!(own, ["first", "second"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    scatter_object <T: Serialize, DeserializeOwned> (objects: Option<&[T]>, src: usize) -> Result<T>;
    /// ```
    /// # use torsh_distributed::{recv_object, send_object, spawn};
    /// let got = spawn(2, |g| {
    ///     if g.rank() == 0 {
    ///         send_object(&vec![1.5, 2.5], 1)?;
    ///         return Ok(vec![]);
    ///     }
    ///     recv_object::<Vec<f64>>(0)
    /// })?;
    /// assert_eq!(got[1], [1.5, 2.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    send_object <T: Serialize> (object: &T, dst: usize) -> Result<()>;
    /// ```
    /// # use torsh_distributed::{recv_object, send_object, spawn};
    /// let got = spawn(2, |g| {
    ///     if g.rank() == 0 {
    ///         send_object(&vec![1.5, 2.5], 1)?;
    ///         return Ok(vec![]);
    ///     }
    ///     recv_object::<Vec<f64>>(0)
    /// })?;
    /// assert_eq!(got[1], [1.5, 2.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    recv_object <T: DeserializeOwned> (src: usize) -> Result<T>;
}
