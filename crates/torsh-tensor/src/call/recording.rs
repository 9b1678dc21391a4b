//! Recording a call in the graph.

use super::*;

#[inline]
pub(super) fn recording(record: &OpRecord, args: &[Arg<'_>]) -> bool {
    mode::get() & mode::NO_GRAD == 0
        && args
            .iter()
            .any(|a| matches!(a, Arg::T(t) if t.requires_grad()))
        && !matches!(record.backward, Backward::NonDifferentiable)
}

/// Makes the node of a call. `versions` are those its operands had before the op ran, where it
/// ran in place.
pub(crate) fn make_node(
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    outs: &[Tensor],
    at: &'static Location<'static>,
    versions: Option<&[u64]>,
) -> Result<Shared<Node>> {
    Node::of_op(record, at, |node| {
        fill(node, record, args, attrs, outs, versions)
    })
}

/// What a node is to know of its call.
#[inline(always)]
fn fill(
    node: &mut Node,
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    outs: &[Tensor],
    versions: Option<&[u64]>,
) -> Result<()> {
    let mut wanted = 0u64;
    for (i, a) in args.iter().enumerate() {
        // Filled in where it stays, as all of a node.
        node.inputs.push(Input {
            edge: None,
            spec: InputSpec::AS_OUTPUT,
        });
        let Some(input) = node.inputs.last_mut() else {
            unreachable!("pushed above");
        };
        match a {
            Arg::T(t) => {
                crate::inplace::check_stale(t)?;
                if t.is_inference() && !mode::is_inference_mode() && t.requires_grad() {
                    return Err(TorshError::autograd(
                        "",
                        "inference tensors cannot be saved for backward",
                    ));
                }
                let edge = if t.dtype().is_differentiable() {
                    t.gradient_edge()
                } else {
                    None
                };
                if edge.is_some() {
                    wanted |= 1 << i.min(63);
                }
                let same = outs
                    .first()
                    .is_some_and(|o| o.shape() == t.shape() && o.dtype() == t.dtype());
                input.edge = edge;
                if !same {
                    input.spec = InputSpec::own(t.shape(), t.dtype());
                }
            }
            Arg::N(n) => input.spec = InputSpec::number(n.dtype()),
            Arg::Absent => {}
        }
    }
    let (mut in_mask, mut out_mask) = (0u64, 0u64);
    match record.backward {
        Backward::PerInput(list) => {
            for (i, g) in list.iter().enumerate() {
                if wanted & (1 << i.min(63)) != 0 {
                    in_mask |= g.inputs;
                    out_mask |= g.outputs;
                }
            }
        }
        Backward::Full {
            inputs, outputs, ..
        } => {
            in_mask = inputs;
            out_mask = outputs;
        }
        _ => {}
    }
    let saved = node.saving();
    if in_mask != 0 {
        for (i, a) in args.iter().enumerate() {
            // Lists of operands (cat, stack) are longer than a mask; the last bit stands for all.
            let keep = in_mask & (1u64 << i.min(63)) != 0;
            match a {
                Arg::T(t) if keep => {
                    if t.is_inference() && !mode::is_inference_mode() {
                        return Err(TorshError::autograd(
                            "",
                            "inference tensors cannot be saved for backward",
                        )
                        .with_hint("copy() it outside of inference_mode to get a normal tensor"));
                    }
                    let version = versions
                        .and_then(|v| v.get(i).copied())
                        .unwrap_or_else(|| t.version());
                    saved.inputs.push(SavedArg::Tensor(Saved::of(t, version)));
                }
                Arg::N(n) if keep => saved.inputs.push(SavedArg::Number(*n)),
                _ => saved.inputs.push(SavedArg::Nothing),
            }
        }
    }
    if out_mask != 0 {
        for (i, t) in outs.iter().enumerate() {
            saved
                .outputs
                .push((out_mask & (1u64 << i.min(63)) != 0).then(|| Saved::of(t, t.version())));
        }
    }
    for t in outs {
        node.outputs.push(Output {
            shape: t.shape().clone(),
            dtype: t.dtype(),
            device: t.device(),
        });
    }
    if let Kind::Op { attrs: kept, .. } = &mut node.kind {
        *kept = attrs.save();
    }
    Ok(())
}

/// Ties a result to the node that made it.
pub(crate) fn attach(mut out: Tensor, node: Shared<Node>, output_nr: u32) -> Tensor {
    match out.meta() {
        Some(m) => {
            let mut s = m.state.lock();
            s.grad_fn = Some(node);
            s.output_nr = output_nr;
            drop(s);
            m.requires_grad
                .store(true, std::sync::atomic::Ordering::Release);
            out
        }
        None => {
            out.place(node, output_nr);
            out
        }
    }
}

#[inline(always)]
pub(super) fn record_one(
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    out: Tensor,
    at: &'static Location<'static>,
) -> Result<Tensor> {
    match recording(record, args) && out.dtype().is_differentiable() {
        true => recorded_one(record, args, attrs, out, at),
        false => Ok(out),
    }
}

#[inline(never)]
fn recorded_one(
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    out: Tensor,
    at: &'static Location<'static>,
) -> Result<Tensor> {
    let node = make_node(record, args, attrs, std::slice::from_ref(&out), at, None)?;
    Ok(attach(out, node, 0))
}

impl OpRecord {
    /// Ties results that a rule computed without recording to a node of this record, whose formula then gives the
    /// gradients of the operands.
    ///
    /// # Errors
    /// Operands that cannot be recorded, as inference tensors.
    #[torsh_tensor::names_caller]
    pub fn recorded(
        &'static self,
        args: &[Arg<'_>],
        attrs: &dyn Attributes,
        outs: Outputs,
    ) -> Result<Outputs> {
        let at = Location::caller();
        record_all(self, args, attrs, outs, at).map_err(|e| in_op(e, self, args, at))
    }
}

pub(super) fn record_all(
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    outs: Outputs,
    at: &'static Location<'static>,
) -> Result<Outputs> {
    if !recording(record, args) {
        return Ok(outs);
    }
    let node = make_node(record, args, attrs, &outs, at, None)?;
    let constant = match record.backward {
        Backward::Full { constant, .. } => constant,
        _ => 0,
    };
    Ok(outs
        .into_iter()
        .enumerate()
        .map(|(i, t)| {
            if t.dtype().is_differentiable() && constant & (1 << i.min(63)) == 0 {
                attach(t, node.clone(), i as u32)
            } else {
                t
            }
        })
        .collect())
}
