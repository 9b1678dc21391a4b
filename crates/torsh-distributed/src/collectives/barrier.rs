//! Barriers.

use super::*;
use crate::comm::all_done;

impl ProcessGroup {
    /// Waits until all ranks have called it (`torch.distributed.barrier`).
    ///
    /// ```
    /// use torsh_distributed::spawn;
    ///
    /// spawn(2, |g| g.barrier())?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A rank that called something else; ranks that do not come within the timeout.
    #[torsh_tensor::names_caller]
    pub fn barrier(&self) -> Result<()> {
        const OP: &str = "barrier";
        let text = |seq| format!("{OP} #{seq}");
        self.submit(
            OP,
            Order::Collective,
            Location::caller(),
            text,
            |call| async move { call.exchange(Payload::Nothing, true).await.map(|_| ()) },
        )?
        .wait()
    }

    /// A barrier that names the ranks that do not come within a time (`torch.distributed.monitored_barrier`): rank 0
    /// collects all ranks and tells the others.
    ///
    /// ```
    /// use std::time::Duration;
    /// use torsh_distributed::spawn;
    ///
    /// spawn(2, |g| g.monitored_barrier(Duration::from_secs(5)))?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// On all ranks that came, if some did not; the group cannot be used any more then.
    #[torsh_tensor::names_caller]
    pub fn monitored_barrier(&self, timeout: Duration) -> Result<()> {
        const OP: &str = "monitored_barrier";
        let text = |seq| format!("{OP} #{seq}");
        self.submit(
            OP,
            Order::Collective,
            Location::caller(),
            text,
            move |call| async move {
                let (n, me) = (call.size(), call.rank());
                let nothing = call.memory_of(&[]);
                if me != 0 {
                    let flights = call.post_first(0, &nothing)?;
                    let answer = call.want_first(0)?;
                    call.pass();
                    all_done(flights).await?;
                    let answer = call.read_first(0, answer, 0).await?.payload().to_vec();
                    return match answer.is_empty() {
                        true => Ok(()),
                        false => Err(missing(String::from_utf8_lossy(&answer).into_owned())),
                    };
                }
                let until = Instant::now() + timeout;
                let mut wanted = Vec::with_capacity(n);
                for r in 1..n {
                    wanted.push((r, call.want_first(r)?));
                }
                call.pass();
                let mut came = Vec::with_capacity(n);
                while !wanted.is_empty() && Instant::now() < until {
                    let mut i = 0;
                    while i < wanted.len() {
                        let mut there = true;
                        for flight in &mut wanted[i].1.1 {
                            there &= flight.poll()?;
                        }
                        if there {
                            let (r, first) = wanted.swap_remove(i);
                            call.read_first(r, first, 0).await?;
                            came.push(r);
                        } else {
                            i += 1;
                        }
                    }
                    if !wanted.is_empty() {
                        crate::comm::next_round().await;
                    }
                }
                let mut absent: Vec<usize> = wanted.iter().map(|(r, _)| *r).collect();
                absent.sort_unstable();
                let message = match absent.is_empty() {
                    true => String::new(),
                    false => format!("the ranks {absent:?} did not come within {timeout:?}"),
                };
                let answer = call.memory_of(message.as_bytes());
                for r in came {
                    all_done(call.post_first(r, &answer)?).await?;
                }
                match absent.is_empty() {
                    true => Ok(()),
                    false => Err(missing(message)),
                }
            },
        )?
        .wait()
    }
}

fn missing(message: String) -> TorshError {
    TorshError::failed("monitored_barrier", message)
        .with_hint("look at what these ranks do; flight_record() has the operations before")
}
