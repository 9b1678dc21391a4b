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
    ($($name:ident $(<$($p:ident: $b:path $(, $b2:path)?);+>)? ($($arg:ident: $t:ty),*) -> $r:ty;)*) => {$(
        #[doc = concat!("[`ProcessGroup::", stringify!($name), "`] on the default group, [`world`].")]
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
    all_reduce_(t: &Tensor, op: ReduceOp) -> Result<Tensor>;
    all_reduce_async(t: &Tensor, op: ReduceOp) -> Result<Work>;
    reduce_(t: &Tensor, dst: usize, op: ReduceOp) -> Result<Tensor>;
    reduce_async(t: &Tensor, dst: usize, op: ReduceOp) -> Result<Work>;
    broadcast_(t: &Tensor, src: usize) -> Result<Tensor>;
    broadcast_async(t: &Tensor, src: usize) -> Result<Work>;
    all_gather(t: &Tensor) -> Result<Vec<Tensor>>;
    all_gather_into_(out: &Tensor, input: &Tensor) -> Result<Tensor>;
    all_gather_into_async(out: &Tensor, input: &Tensor) -> Result<Work>;
    reduce_scatter_(out: &Tensor, input: &Tensor, op: ReduceOp) -> Result<Tensor>;
    reduce_scatter_async(out: &Tensor, input: &Tensor, op: ReduceOp) -> Result<Work>;
    reduce_scatter(inputs: &[Tensor], op: ReduceOp) -> Result<Tensor>;
    all_to_all(inputs: &[Tensor]) -> Result<Vec<Tensor>>;
    all_to_all_single_(out: &Tensor, input: &Tensor) -> Result<Tensor>;
    all_to_all_single_async(out: &Tensor, input: &Tensor) -> Result<Work>;
    all_to_all_single_with_(out: &Tensor, input: &Tensor, out_splits: &[usize], in_splits: &[usize]) -> Result<Tensor>;
    gather(t: &Tensor, dst: usize) -> Result<Option<Vec<Tensor>>>;
    scatter_(out: &Tensor, input: Option<&[Tensor]>, src: usize) -> Result<Tensor>;
    send(t: &Tensor, dst: usize) -> Result<()>;
    recv_(t: &Tensor, src: usize) -> Result<Tensor>;
    isend(t: &Tensor, dst: usize) -> Result<Work>;
    irecv_(t: &Tensor, src: usize) -> Result<Work>;
    send_tagged(t: &Tensor, dst: usize, tag: u32) -> Result<()>;
    recv_tagged_(t: &Tensor, src: usize, tag: u32) -> Result<Tensor>;
    isend_tagged(t: &Tensor, dst: usize, tag: u32) -> Result<Work>;
    irecv_tagged_(t: &Tensor, src: usize, tag: u32) -> Result<Work>;
    batch_isend_irecv(ops: &[P2POp]) -> Result<Vec<Work>>;
    barrier() -> Result<()>;
    monitored_barrier(timeout: Duration) -> Result<()>;
    all_reduce_coalesced_(ts: &[Tensor], op: ReduceOp) -> Result<()>;
    all_reduce_coalesced_async(ts: &[Tensor], op: ReduceOp) -> Result<Work>;
    broadcast_coalesced_(ts: &[Tensor], src: usize) -> Result<()>;
    broadcast_coalesced_async(ts: &[Tensor], src: usize) -> Result<Work>;
    all_gather_into_coalesced_(outs: &[Tensor], inputs: &[Tensor]) -> Result<()>;
    all_gather_into_coalesced_async(outs: &[Tensor], inputs: &[Tensor]) -> Result<Work>;
    reduce_scatter_coalesced_(outs: &[Tensor], inputs: &[Tensor], op: ReduceOp) -> Result<()>;
    reduce_scatter_coalesced_async(outs: &[Tensor], inputs: &[Tensor], op: ReduceOp) -> Result<Work>;
    broadcast_object <T: Serialize, DeserializeOwned> (object: Option<&T>, src: usize) -> Result<T>;
    all_gather_object <T: Serialize, DeserializeOwned> (object: &T) -> Result<Vec<T>>;
    gather_object <T: Serialize, DeserializeOwned> (object: &T, dst: usize) -> Result<Option<Vec<T>>>;
    scatter_object <T: Serialize, DeserializeOwned> (objects: Option<&[T]>, src: usize) -> Result<T>;
    send_object <T: Serialize> (object: &T, dst: usize) -> Result<()>;
    recv_object <T: DeserializeOwned> (src: usize) -> Result<T>;
}
