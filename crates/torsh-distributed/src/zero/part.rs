//! Which rank trains which parameters.

use std::collections::BTreeMap;

use torsh_optim::{GroupState, Optimizer, OptimizerState, Param};
use torsh_tensor::{Result, Tensor, TorshError};

/// Groups of parameters, shared out among ranks by size. A rank's inner optimizer has as many groups; one in which it has no
/// parameters holds a stand-in, which never gets a gradient.
pub(crate) struct Part {
    groups: Vec<Vec<Param>>,
    owners: Vec<Vec<usize>>,
}

impl Part {
    /// Shares out: the largest first, each to the rank with the fewest elements so far.
    pub(crate) fn new(op: &'static str, groups: Vec<Vec<Param>>, ranks: usize) -> Result<Part> {
        if groups.is_empty() || groups.iter().any(Vec::is_empty) {
            return Err(TorshError::invalid(op, "a group of parameters is empty")
                .with_hint("pass model.parameters()"));
        }
        let mut order: Vec<(usize, usize, usize)> = Vec::new();
        for (g, params) in groups.iter().enumerate() {
            order.extend(
                params
                    .iter()
                    .enumerate()
                    .map(|(i, p)| (p.tensor().numel(), g, i)),
            );
        }
        // Stable, so all ranks agree.
        order.sort_by_key(|&(numel, ..)| std::cmp::Reverse(numel));
        let mut load = vec![0usize; ranks];
        let mut owners: Vec<Vec<usize>> = groups.iter().map(|g| vec![0; g.len()]).collect();
        for (numel, g, i) in order {
            let least = load.iter().copied().min().unwrap_or(0);
            let rank = load.iter().position(|l| *l == least).unwrap_or(0);
            // Even an empty parameter counts.
            load[rank] += numel.max(1);
            owners[g][i] = rank;
        }
        Ok(Part { groups, owners })
    }

    pub(crate) fn groups(&self) -> &[Vec<Param>] {
        &self.groups
    }

    /// All parameters, in order.
    pub(crate) fn params(&self) -> impl Iterator<Item = &Param> {
        self.groups.iter().flatten()
    }

    /// The parameters of a rank, in order.
    pub(crate) fn owned_by(&self, rank: usize) -> impl Iterator<Item = &Param> {
        let owners = self.owners.iter().flatten();
        self.params()
            .zip(owners)
            .filter(move |(_, o)| **o == rank)
            .map(|(p, _)| p)
    }

    /// The rank of the parameter of this number among all.
    pub(crate) fn owner(&self, number: usize) -> usize {
        self.owners
            .iter()
            .flatten()
            .nth(number)
            .copied()
            .unwrap_or(0)
    }

    /// What the inner optimizer of a rank is made of.
    pub(crate) fn of_rank(&self, rank: usize) -> Result<Vec<Vec<Param>>> {
        let mut out = Vec::new();
        for (params, owners) in self.groups.iter().zip(&self.owners) {
            let mut own: Vec<Param> = params
                .iter()
                .zip(owners)
                .filter(|(_, o)| **o == rank)
                .map(|(p, _)| p.clone())
                .collect();
            if own.is_empty()
                && let Some(like) = params.first()
            {
                own.push(stand_in(like.tensor())?.into());
            }
            out.push(own);
        }
        Ok(out)
    }

    /// An error where an optimizer was made of other groups.
    pub(crate) fn check(&self, op: &'static str, optimizer: &impl Optimizer) -> Result<()> {
        let have = optimizer.param_groups().len();
        match have == self.groups.len() {
            true => Ok(()),
            false => Err(TorshError::invalid(
                op,
                format!(
                    "the inner optimizer has {have} groups of parameters, where it got {}",
                    self.groups.len()
                ),
            )
            .with_hint("make a ParamGroup of each group that the closure gets")),
        }
    }

    /// For each group, the numbers among all of a rank's parameters.
    fn numbers(&self, rank: usize) -> Vec<Vec<usize>> {
        let mut first = 0;
        let mut out = Vec::new();
        for owners in &self.owners {
            let own = owners.iter().enumerate().filter(|(_, o)| **o == rank);
            out.push(own.map(|(i, _)| first + i).collect());
            first += owners.len();
        }
        out
    }

    /// A rank's state under the numbers among all parameters; groups name all of them.
    pub(crate) fn to_whole(&self, state: &OptimizerState, rank: usize) -> OptimizerState {
        let mut out = OptimizerState::default();
        let mut first = 0;
        let groups = state
            .param_groups
            .iter()
            .zip(self.numbers(rank))
            .zip(&self.groups);
        for ((group, numbers), all) in groups {
            for (own, number) in group.params.iter().zip(numbers) {
                if let Some(s) = state.state.get(own) {
                    out.state.insert(number, s.clone());
                }
            }
            out.param_groups.push(GroupState {
                options: group.options.clone(),
                params: (first..first + all.len()).collect(),
            });
            first += all.len();
        }
        out
    }

    /// A rank's share of the state of all parameters.
    pub(crate) fn to_part(
        &self,
        op: &'static str,
        state: &OptimizerState,
        rank: usize,
    ) -> Result<OptimizerState> {
        let given: Vec<usize> = state.param_groups.iter().map(|g| g.params.len()).collect();
        let have: Vec<usize> = self.groups.iter().map(Vec::len).collect();
        if given != have {
            return Err(TorshError::invalid(
                op,
                format!("the loaded state dict has groups of {given:?} parameters, the optimizer of {have:?}"),
            )
            .with_hint("save what state_dict() gives after consolidate_state_dict"));
        }
        let mut out = OptimizerState {
            state: BTreeMap::new(),
            param_groups: Vec::new(),
        };
        let (mut first, mut next) = (0, 0);
        for (group, numbers) in state.param_groups.iter().zip(self.numbers(rank)) {
            let begin = next;
            for number in &numbers {
                if let Some(s) = group
                    .params
                    .get(number - first)
                    .and_then(|n| state.state.get(n))
                {
                    out.state.insert(next, s.clone());
                }
                next += 1;
            }
            // The stand-in.
            next += usize::from(numbers.is_empty());
            out.param_groups.push(GroupState {
                options: group.options.clone(),
                params: (begin..next).collect(),
            });
            first += group.params.len();
        }
        Ok(out)
    }
}

/// A parameter of the same dtype and number of dimensions, with one element.
fn stand_in(like: &Tensor) -> Result<Tensor> {
    let t = Tensor::zeros(vec![1; like.ndim()], like.dtype(), like.device())?;
    if like.dtype().is_differentiable() {
        t.set_requires_grad(true)?;
    }
    Ok(t)
}

#[cfg(test)]
mod tests {
    use super::*;
    use torsh_tensor::{DType, Device};

    #[test]
    fn large_parameters_go_first_and_loads_are_even() {
        let sizes = [3usize, 10, 4, 6, 1];
        let params = sizes
            .iter()
            .map(|&n| Tensor::zeros([n], DType::F32, Device::Cpu).map(Param::from))
            .collect::<Result<Vec<_>>>()
            .expect("tensors");
        let part = Part::new("test", vec![params], 2).expect("parts");
        assert_eq!(part.owners, [[0, 0, 1, 1, 1]]);
        let load = |r| part.owned_by(r).map(|p| p.tensor().numel()).sum::<usize>();
        assert_eq!((load(0), load(1)), (13, 11));
        assert_eq!(part.numbers(1), [[2, 3, 4]]);
    }
}
