//! Splitting a backward pass into the input's gradient and those of the weights.
//!
//! A layer's weights need the gradient of the layer's result, and nothing else. So hooks note the result of each layer that
//! has parameters. The first part of the backward pass asks for the gradients of the stage's input and of these results,
//! and computes no weight's; the second asks each result for its layer's weights. A weight that anything else uses too (a
//! tied one, a layer that runs twice, a parameter without a layer of its own) gets its gradient in the first part.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use torsh_nn::{FieldRef, Module, ModuleExt, Parameter};
use torsh_tensor::{Node, Result, Tensor, grad, no_grad};

/// A layer's run.
struct Call {
    layer: usize,
    x: Tensor,
    y: Tensor,
}

/// Notes the results of a stage's layers.
pub(super) struct Recorder {
    calls: Arc<Mutex<Option<Vec<Call>>>>,
    layers: Vec<Vec<Parameter>>,
    all: Vec<Parameter>,
}

impl Recorder {
    #[torsh_tensor::names_caller(Self)]
    pub fn new(module: &dyn Module) -> Result<Recorder> {
        let calls: Arc<Mutex<Option<Vec<Call>>>> = Arc::default();
        let mut layers = Vec::new();
        for (_, layer) in module.named_modules() {
            let (mut own, mut hooks) = (Vec::new(), false);
            layer.visit_fields(&mut |name, field| match field {
                FieldRef::Parameter(p) => own.push(p.clone()),
                FieldRef::Hooks(_) if !name.contains('.') => hooks = true,
                _ => {}
            });
            if own.is_empty() || !hooks {
                continue;
            }
            let (number, calls) = (layers.len(), calls.clone());
            layer.register_forward_hook(move |_, x, y| {
                if let Some(calls) = calls.lock().as_mut() {
                    calls.push(Call {
                        layer: number,
                        x: x.clone(),
                        y: y.clone(),
                    });
                }
                Ok(None)
            })?;
            layers.push(own);
        }
        Ok(Recorder {
            calls,
            layers,
            all: module.parameters(),
        })
    }

    /// Runs a forward pass, and says which weights can wait.
    #[torsh_tensor::names_caller]
    pub fn run(&self, forward: impl FnOnce() -> Result<Tensor>) -> Result<(Tensor, Split)> {
        *self.calls.lock() = Some(Vec::new());
        let out = forward();
        let calls = self.calls.lock().take().unwrap_or_default();
        let out = out?;
        let split = self.split(&out, calls);
        Ok((out, split))
    }

    fn split(&self, out: &Tensor, calls: Vec<Call>) -> Split {
        let everywhere = users(out, None);
        let mut runs: HashMap<usize, usize> = HashMap::new();
        for c in &calls {
            *runs.entry(c.layer).or_default() += 1;
        }
        let mut layers = Vec::new();
        let mut waits: HashSet<usize> = HashSet::new();
        for c in calls {
            let own: Vec<&Parameter> = self.layers[c.layer]
                .iter()
                .filter(|p| p.requires_grad())
                .collect();
            if own.is_empty() || runs.get(&c.layer) != Some(&1) || !c.y.requires_grad() {
                continue;
            }
            let inside = users(&c.y, Some(&c.x));
            let alone = own.iter().all(|p| {
                let of = |list: &[(Tensor, HashSet<usize>)]| {
                    let found = list.iter().find(|(leaf, _)| leaf.is_same(p.tensor()));
                    found.map(|(_, users)| users.clone())
                };
                matches!((of(&everywhere), of(&inside)), (Some(all), Some(inside)) if all == inside)
            });
            if alone {
                waits.extend(own.iter().map(|p| p.id()));
                layers.push((c.y, own.into_iter().cloned().collect()));
            }
        }
        let rest = self
            .all
            .iter()
            .filter(|p| p.requires_grad() && !waits.contains(&p.id()));
        Split {
            rest: rest.cloned().collect(),
            layers,
        }
    }
}

/// The nodes that use each leaf below a result, by their addresses; what is below `end` is left out.
fn users(out: &Tensor, end: Option<&Tensor>) -> Vec<(Tensor, HashSet<usize>)> {
    let address = |n: &Node| n as *const Node as usize;
    let end = end.and_then(Tensor::grad_fn).map(|n| address(&n));
    let mut found: HashMap<usize, (Tensor, HashSet<usize>)> = HashMap::new();
    let mut seen = HashSet::new();
    let mut stack: Vec<_> = out.grad_fn().into_iter().collect();
    while let Some(node) = stack.pop() {
        let at = address(&node);
        if Some(at) == end || !seen.insert(at) {
            continue;
        }
        for (next, _) in node.next_functions().into_iter().flatten() {
            match next.variable() {
                Some(leaf) => {
                    let entry = found.entry(address(&next));
                    entry
                        .or_insert_with(|| (leaf.clone(), HashSet::new()))
                        .1
                        .insert(at);
                }
                None => stack.push(next),
            }
        }
    }
    found.into_values().collect()
}

/// Which weights of a forward pass can wait for their gradients.
pub(super) struct Split {
    layers: Vec<(Tensor, Vec<Parameter>)>,
    rest: Vec<Parameter>,
}

/// What the weights' gradients are computed from.
#[derive(Default)]
pub(super) struct Waiting {
    layers: Vec<(Tensor, Tensor, Vec<Parameter>)>,
}

impl Split {
    /// The gradient of the stage's input, where there is one, and what is left to do.
    #[torsh_tensor::names_caller]
    pub fn backward(
        self,
        out: &Tensor,
        g: Option<Tensor>,
        input: Option<&Tensor>,
    ) -> Result<(Option<Tensor>, Waiting)> {
        let mut wanted: Vec<Tensor> = input.into_iter().cloned().collect();
        wanted.extend(self.layers.iter().map(|(y, _)| y.clone()));
        wanted.extend(self.rest.iter().map(|p| p.tensor().clone()));
        if wanted.is_empty() {
            return Ok((None, Waiting::default()));
        }
        let out = std::slice::from_ref(out);
        // The graph stays for the weights.
        let mut found = grad(out, &wanted, &[g], true, false, true)?.into_iter();
        let back = match input {
            Some(_) => found.next().flatten(),
            None => None,
        };
        let mut layers = Vec::with_capacity(self.layers.len());
        for (y, own) in self.layers {
            if let Some(g) = found.next().flatten() {
                layers.push((y, g, own));
            }
        }
        for (p, g) in self.rest.iter().zip(found) {
            add(p, g)?;
        }
        Ok((back, Waiting { layers }))
    }
}

impl Waiting {
    /// Adds up the weights' gradients.
    #[torsh_tensor::names_caller]
    pub fn run(self) -> Result<()> {
        for (y, g, own) in self.layers {
            let wanted: Vec<Tensor> = own.iter().map(|p| p.tensor().clone()).collect();
            let found = grad(&[y], &wanted, &[Some(g)], true, false, true)?;
            for (p, g) in own.iter().zip(found) {
                add(p, g)?;
            }
        }
        Ok(())
    }
}

fn add(p: &Parameter, g: Option<Tensor>) -> Result<()> {
    let Some(g) = g else { return Ok(()) };
    no_grad(|| match p.grad() {
        Some(have) => have.add_(&g).map(|_| ()),
        // A copy, as another gradient may have the same memory.
        None => p.set_grad(Some(g.detach().copy()?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use torsh_nn::{Linear, ReLU, sequential};
    use torsh_tensor::{DType, Device, randn};

    #[test]
    fn weights_wait_unless_something_else_uses_them() -> Result<()> {
        let tied = Linear::new(3, 3);
        let mut again = Linear::new(3, 3);
        again.weight = tied.weight.clone();
        let net = sequential![
            Linear::new(3, 3),
            ReLU::new(),
            tied,
            again,
            Linear::new(3, 3)
        ];
        let recorder = Recorder::new(&net)?;
        let x = randn([2, 3]).requires_grad_(true);
        let (out, split) = recorder.run(|| net.forward(&x)?.square()?.sum())?;
        let (back, waiting) = split.backward(&out, None, Some(&x))?;
        let have = |name: &str| net.get_parameter(name).map(|p| p.has_grad());
        // The tied weight and the biases of its layers have theirs already.
        for (name, now) in [
            ("0.weight", false),
            ("0.bias", false),
            ("2.weight", true),
            ("2.bias", true),
            ("3.bias", true),
            ("4.weight", false),
            ("4.bias", false),
        ] {
            assert_eq!(have(name)?, now, "{name}");
        }
        waiting.run()?;
        let split: Vec<Option<Tensor>> = net.parameters().iter().map(|p| p.grad()).collect();
        net.zero_grad();
        net.forward(&x)?.square()?.sum()?.backward()?;
        for (p, g) in net.parameters().iter().zip(split) {
            assert_eq!(p.grad(), g);
        }
        assert_eq!(x.grad(), back);
        Ok(())
    }

    #[test]
    fn a_stage_without_parameters_gives_the_gradient_alone() -> Result<()> {
        let net = sequential![ReLU::new()];
        let recorder = Recorder::new(&net)?;
        let x = Tensor::ones([2], DType::F32, Device::Cpu)?.requires_grad_(true);
        let (out, split) = recorder.run(|| net.forward(&x))?;
        let g = Tensor::full([2], 3.0, DType::F32, Device::Cpu)?;
        let (back, waiting) = split.backward(&out, Some(g.clone()), Some(&x))?;
        assert_eq!(back, Some(g));
        waiting.run()
    }
}
