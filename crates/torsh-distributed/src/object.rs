//! Objects of any type that serde knows. They travel as JSON, so floating-point numbers that are not finite and maps whose
//! keys are no texts do not.

use std::future::Future;
use std::panic::Location;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use torsh_tensor::{Result, TorshError};

use crate::comm::Call;
use crate::group::{Order, ProcessGroup};

fn write<T: Serialize>(op: &'static str, object: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(object)
        .map_err(|e| TorshError::format(op, format!("the object cannot be written as JSON: {e}")))
}

fn read<T: DeserializeOwned>(op: &'static str, from: usize, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|e| {
        TorshError::format(
            op,
            format!(
                "the object of rank {from} cannot be read as {}: {e}",
                std::any::type_name::<T>()
            ),
        )
        .with_hint("all ranks must give the same type; numbers that are not finite cannot be sent")
    })
}

impl ProcessGroup {
    /// Runs an operation that gives bytes, and waits for it.
    #[track_caller]
    pub(crate) fn bytes_of<F, S, R>(
        &self,
        kind: &'static str,
        order: Order,
        caller: &'static Location<'static>,
        text: impl FnOnce(u64) -> String,
        steps: F,
    ) -> Result<R>
    where
        F: FnOnce(Call) -> S + Send + 'static,
        S: Future<Output = Result<R>> + 'static,
        R: Send + Default + 'static,
    {
        let result: Arc<Mutex<R>> = Arc::default();
        let told = result.clone();
        self.submit(kind, order, caller, text, move |call| async move {
            let r = steps(call).await?;
            *told.lock() = r;
            Ok(())
        })?
        .wait()?;
        let r = std::mem::take(&mut *result.lock());
        Ok(r)
    }

    /// The bytes of all ranks, in rank order.
    #[track_caller]
    pub(crate) fn all_gather_bytes(
        &self,
        op: &'static str,
        caller: &'static Location<'static>,
        what: &'static str,
        own: Vec<u8>,
    ) -> Result<Vec<Vec<u8>>> {
        // Shapes that go ahead of tensors are counted apart.
        let kind = if what == "shapes" { what } else { op };
        let text = |seq| format!("{op} {what} #{seq}");
        self.bytes_of(
            kind,
            Order::Collective,
            caller,
            text,
            move |call| async move { call.all_gather_bytes(own).await },
        )
        .map_err(|e| match kind == op {
            true => e,
            false => e.renamed(op),
        })
    }

    /// Gives all ranks the object of rank `src` (`torch.distributed.broadcast_object_list`); the others give `None`.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    ///
    /// let all = spawn(2, |g| {
    ///     let own = (g.rank() == 0).then(|| ("run".to_string(), vec![1, 2]));
    ///     g.broadcast_object(own.as_ref(), 0)
    /// })?;
    /// assert_eq!(all[1], ("run".to_string(), vec![1, 2]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// No object of rank `src`; an object that serde cannot write or read as JSON; ranks that do not come within the
    /// timeout.
    #[torsh_tensor::names_caller]
    pub fn broadcast_object<T: Serialize + DeserializeOwned>(
        &self,
        object: Option<&T>,
        src: usize,
    ) -> Result<T> {
        const OP: &str = "broadcast_object";
        self.check_rank(OP, "src", src)?;
        let own = match (object, self.rank() == src) {
            (Some(o), true) => Some(write(OP, o)?),
            (None, true) => {
                let message = format!("rank {src} is src and gives no object");
                return Err(TorshError::invalid(OP, message));
            }
            _ => None,
        };
        let text = |seq| format!("{OP}(src {src}) #{seq}");
        let bytes = self.bytes_of(
            OP,
            Order::Collective,
            Location::caller(),
            text,
            move |call| async move { call.broadcast_bytes(own, src).await },
        )?;
        read(OP, src, &bytes)
    }

    /// The objects of all ranks, in rank order (`torch.distributed.all_gather_object`).
    ///
    /// ```
    /// use torsh_distributed::spawn;
    ///
    /// let all = spawn(2, |g| g.all_gather_object(&format!("rank {}", g.rank())))?;
    /// assert_eq!(all[0], ["rank 0", "rank 1"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProcessGroup::broadcast_object`].
    #[torsh_tensor::names_caller]
    pub fn all_gather_object<T: Serialize + DeserializeOwned>(&self, object: &T) -> Result<Vec<T>> {
        const OP: &str = "all_gather_object";
        let own = write(OP, object)?;
        let all = self.all_gather_bytes(OP, Location::caller(), "objects", own)?;
        all.iter()
            .enumerate()
            .map(|(r, b)| read(OP, r, b))
            .collect()
    }

    /// The objects of all ranks at rank `dst` (`torch.distributed.gather_object`); the others get `None`.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    ///
    /// let all = spawn(2, |g| g.gather_object(&g.rank(), 1))?;
    /// assert_eq!(all, [None, Some(vec![0, 1])]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProcessGroup::broadcast_object`].
    #[torsh_tensor::names_caller]
    pub fn gather_object<T: Serialize + DeserializeOwned>(
        &self,
        object: &T,
        dst: usize,
    ) -> Result<Option<Vec<T>>> {
        const OP: &str = "gather_object";
        self.check_rank(OP, "dst", dst)?;
        let own = write(OP, object)?;
        let text = |seq| format!("{OP}(dst {dst}) #{seq}");
        let all: Vec<Vec<u8>> = self.bytes_of(
            OP,
            Order::Collective,
            Location::caller(),
            text,
            move |call| async move { call.gather_bytes(own, dst).await },
        )?;
        if self.rank() != dst {
            return Ok(None);
        }
        let objects = all.iter().enumerate().map(|(r, b)| read(OP, r, b));
        objects.collect::<Result<Vec<T>>>().map(Some)
    }

    /// Gives each rank its object of those that rank `src` has (`torch.distributed.scatter_object_list`); the others give
    /// `None`.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    ///
    /// let own = spawn(2, |g| {
    ///     let all = ["first".to_string(), "second".to_string()];
    ///     g.scatter_object((g.rank() == 0).then_some(&all[..]), 0)
    /// })?;
    /// assert_eq!(own, ["first", "second"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Not one object for each rank; and as [`ProcessGroup::broadcast_object`].
    #[torsh_tensor::names_caller]
    pub fn scatter_object<T: Serialize + DeserializeOwned>(
        &self,
        objects: Option<&[T]>,
        src: usize,
    ) -> Result<T> {
        const OP: &str = "scatter_object";
        self.check_rank(OP, "src", src)?;
        let all = match (objects, self.rank() == src) {
            (Some(o), true) if o.len() == self.size() => {
                Some(o.iter().map(|o| write(OP, o)).collect::<Result<Vec<_>>>()?)
            }
            (o, true) => {
                let message = format!(
                    "rank {src} is src and gives {} objects for {} ranks",
                    o.map_or(0, <[T]>::len),
                    self.size()
                );
                return Err(TorshError::invalid(OP, message));
            }
            _ => None,
        };
        let text = |seq| format!("{OP}(src {src}) #{seq}");
        let bytes = self.bytes_of(
            OP,
            Order::Collective,
            Location::caller(),
            text,
            move |call| async move { call.scatter_bytes(all, src).await },
        )?;
        read(OP, src, &bytes)
    }

    /// Sends an object to rank `dst`, which receives it with [`ProcessGroup::recv_object`].
    ///
    /// ```
    /// use torsh_distributed::spawn;
    ///
    /// let got = spawn(2, |g| {
    ///     if g.rank() == 0 {
    ///         g.send_object(&vec![1.5, 2.5], 1)?;
    ///         return Ok(vec![]);
    ///     }
    ///     g.recv_object::<Vec<f64>>(0)
    /// })?;
    /// assert_eq!(got[1], [1.5, 2.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// The own rank, or one that is not there; an object that serde cannot write as JSON; no receiver within the timeout.
    #[torsh_tensor::names_caller]
    pub fn send_object<T: Serialize>(&self, object: &T, dst: usize) -> Result<()> {
        const OP: &str = "send_object";
        self.send_bytes(OP, write(OP, object)?, dst)
    }

    /// Receives an object from rank `src`.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// let got = spawn(2, |g| match g.rank() {
    ///     0 => g.send_object(&(3.5, true), 1).map(|()| None),
    ///     _ => g.recv_object::<(f64, bool)>(0).map(Some),
    /// })?;
    /// assert_eq!(got, [None, Some((3.5, true))]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProcessGroup::send_object`], and an object of another type.
    #[torsh_tensor::names_caller]
    pub fn recv_object<T: DeserializeOwned>(&self, src: usize) -> Result<T> {
        const OP: &str = "recv_object";
        read(OP, src, &self.recv_bytes(OP, src)?)
    }
}
