//! COO gradients in the reducer.
//!
//! Only a gradient says whether it is a COO tensor, and on another rank the parameter may have none in this step. So in the
//! first step all gradients wait for the last one. The ranks then tell one another the layouts, and a parameter with a COO
//! gradient on any of them leaves the buckets. From then on its gradients are collected behind the buckets.
//!
//! Where the ranks tell one another in each step which parameters they use, a parameter may have its first COO gradient later:
//! its place in its bucket is then sent as zeros, once. Where they do not, the others do not know that it is not strided, as
//! theirs is: it is put into its bucket with all its elements. So are gradients of compressed layouts in each step.

use torsh_tensor::{Result, Tensor};

use crate::coo::{self, Form, Part};
use crate::reduce::ReduceOp;

use super::reducer::{LATE, OP, Reducer, State};

impl Reducer {
    /// Takes parameters with COO gradients out of the buckets.
    fn set_coo(&self, s: &mut State, coo: Vec<bool>) {
        let order = s.buckets.iter().flat_map(|b| b.params.iter().copied());
        let order = order.collect();
        s.coo = Some(coo);
        self.assign(s, order);
    }

    /// At the end of the first backward pass the ranks tell one another which gradients are COO tensors. The others are put
    /// into their buckets. A rank that has no more inputs gives none.
    pub(super) fn learn(&self, s: &mut State, own: bool) -> Result<()> {
        let forms = self.slots.iter().map(|slot| match own {
            true => Form::of(slot.tensor.grad().as_ref()),
            false => Form::Absent,
        });
        let all = coo::forms(OP, &self.group, forms.collect())?;
        let n = self.slots.len();
        let coo = (0..n).map(|i| all.iter().any(|forms| forms[i].is_coo()));
        let coo = coo.collect();
        self.set_coo(s, coo);
        match own {
            true => (0..n).try_for_each(|i| self.fill(s, i)),
            false => Ok(()),
        }
    }

    /// The averages of gradients that are COO tensors on some rank, by the parameter's number. Buckets have been sent. A rank
    /// that has no more inputs gives none.
    pub(super) fn collect_coo(
        &self,
        s: &mut State,
        used: Option<&[i32]>,
        own: bool,
    ) -> Result<Vec<(usize, Option<Tensor>)>> {
        let is_coo = |i: usize| match used {
            Some(used) if used[i] == LATE => true,
            Some(used) if used[i] == 0 => false,
            None if s.late.contains(&i) => true,
            _ => s.coo.as_ref().is_some_and(|coo| coo[i]),
        };
        let list: Vec<usize> = (0..self.slots.len()).filter(|i| is_coo(*i)).collect();
        if list.is_empty() {
            return Ok(Vec::new());
        }
        let parts: Vec<Part<'_>> = list
            .iter()
            .map(|&i| Part {
                name: &self.slots[i].name,
                parameter: &self.slots[i].tensor,
                grad: self.slots[i].tensor.grad().filter(|_| own),
            })
            .collect();
        let reduce_dtype = self.options.mixed_precision.reduce_dtype;
        let gathered = coo::gather(OP, &self.group, &parts, reduce_dtype)?;
        let ranks = self.active(s).unwrap_or(self.group.size());
        let mut all = Vec::with_capacity(list.len());
        for ((i, part), g) in list.into_iter().zip(&parts).zip(gathered) {
            // Other ranks may have a strided one: then so is the average.
            let strided = match (g.strided, s.place[i]) {
                (false, _) => None,
                (true, Some((b, at))) => Some(s.buckets[b].view(at)?.copy()?),
                (true, None) => {
                    let t = part.parameter;
                    let sum = match &g.own {
                        Some(own) => own.copy()?,
                        None => Tensor::zeros(t.shape(), t.dtype(), t.device())?,
                    };
                    self.group.all_reduce_(&sum, ReduceOp::Sum)?;
                    Some(sum.div_(ranks as f64)?)
                }
            };
            let sparse = g.sum.map(|sum| coo::average(sum, ranks)).transpose()?;
            let average = match (strided, sparse) {
                (Some(strided), Some(sparse)) => Some(strided.add(&sparse)?),
                (strided, sparse) => strided.or(sparse),
            };
            all.push((i, average));
        }
        Ok(all)
    }

    /// A sparse gradient with all its elements. Where it cannot be read, all ranks get an error: the others wait for this
    /// rank's bucket.
    pub(super) fn whole(&self, i: usize, grad: &Tensor) -> Result<Tensor> {
        coo::strided(grad).map_err(|e| {
            let (name, layout) = (&self.slots[i].name, grad.layout());
            let why = coo::reason(&e);
            self.group.give_up(
                OP,
                format!("the gradient of {name} ({layout}) cannot be read: {why}"),
            )
        })
    }

    /// Gives parameters their averages. Those that were in buckets leave them.
    pub(super) fn keep_coo(
        &self,
        s: &mut State,
        collected: Vec<(usize, Option<Tensor>)>,
    ) -> Result<()> {
        let Some(mut coo) = s.coo.clone().filter(|_| !collected.is_empty()) else {
            return Ok(());
        };
        for (i, average) in collected {
            coo[i] = true;
            if let Some(average) = average {
                self.slots[i].tensor.set_grad(Some(average))?;
            }
        }
        self.set_coo(s, coo);
        Ok(())
    }
}
