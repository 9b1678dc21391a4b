//! Builds workloads from their specifications.

use torsh_nn::functional::{
    self as F, AttentionWindow, AvgPool2dOptions, BlockMask, Conv1dOptions, Conv2dOptions,
    InterpolateMode, InterpolateOptions, LayerNormOptions, MaxPool2dOptions,
    ScaledDotProductAttentionOptions,
};
use torsh_nn::{BatchNorm2d, Linear, Module, ModuleExt, Padding};
use torsh_optim::{Adam, Optimizer, ParamOrGroup, SGD, SparseAdam};
use torsh_sparse::{Pattern, from_values};
use torsh_tensor::{DType, Device, Result, Tensor, grad, inference_mode};

use crate::inputs::{Layout, laid_out, randint, randn};
use crate::models::Model;
use crate::spec::{Attention, BlockAttention, Conv, Op, Out, Rule, Spec, Workload};

impl Spec {
    /// The workload with new inputs, those that it computes with laid out as said.
    pub fn make(&self, layout: Layout) -> Result<Workload> {
        make(self, layout)
    }
}

fn make(spec: &Spec, layout: Layout) -> Result<Workload> {
    let x = |shape: &[usize]| laid_out(shape, layout);
    let (f32, cpu) = (DType::F32, Device::Cpu);
    Ok(match *spec {
        Spec::MatMul {
            ref a,
            ref b,
            dtype,
        } => {
            let inputs = [x(a)?.to_dtype(dtype)?, x(b)?.to_dtype(dtype)?];
            Workload::new(inputs, |[a, b]| a.matmul(b))
        }
        Spec::LinearGelu {
            rows,
            inputs,
            outputs,
        } => {
            let l = Linear::new(inputs, outputs);
            l.requires_grad_(false);
            let state = state(&l);
            Workload::new([x(&[rows, inputs])?], move |[x]| F::gelu(l.forward(x)?))
                .with_state(state)
        }
        Spec::Pointwise { op, n } => pointwise(op, n, layout)?,
        Spec::Sum { n } => Workload::new([x(&[n])?], |[x]| x.sum()),
        Spec::AddBroadcast { rows, cols } => {
            Workload::new([x(&[rows, cols])?, randn(&[cols])?], |[x, y]| x.add(y))
        }
        Spec::AddInplace { n } => Workload::new([x(&[n])?], |[x]| x.add_(1.0)),
        Spec::Chain { n } => Workload::new([x(&[n])?], |[x]| x.sigmoid()?.mul(x)?.add(1.0)),
        Spec::Copy { n } => Workload::new([x(&[n])?], |[x]| x.copy()),
        Spec::Transpose { rows, cols } => {
            Workload::new([x(&[rows, cols])?], |[x]| x.t()?.contiguous())
        }
        Spec::Permute { shape } => {
            Workload::new([x(&shape)?], |[x]| x.permute([0, 2, 3, 1])?.contiguous())
        }
        Spec::Cat { parts, n } => {
            let parts = (0..parts).map(|_| x(&[n])).collect::<Result<Vec<_>>>()?;
            Workload {
                inputs: parts.clone(),
                state: vec![],
                call: Box::new(move || Tensor::cat(&parts, 0).map(Out::One)),
            }
        }
        Spec::SumDim { rows, cols, dim } => {
            Workload::new([x(&[rows, cols])?], move |[x]| x.sum_dim(dim, false))
        }
        Spec::Argmax { rows, cols } => {
            Workload::new([x(&[rows, cols])?], |[x]| x.argmax_dim(1, false))
        }
        Spec::Var { rows, cols } => Workload::new([x(&[rows, cols])?], |[x]| x.var_dim(1, false)),
        Spec::Softmax { rows, cols } => Workload::new([x(&[rows, cols])?], |[x]| F::softmax(x, -1)),
        Spec::LayerNorm { rows, cols } => {
            let inputs = [
                x(&[rows, cols])?,
                Tensor::ones([cols], f32, cpu)?,
                Tensor::zeros([cols], f32, cpu)?,
            ];
            Workload::new(inputs, move |[x, w, b]| {
                let options = LayerNormOptions::new().weight(w).bias(b);
                F::layer_norm_with(x, [cols], options)
            })
        }
        Spec::CrossEntropy { rows, cols } => {
            let inputs = [x(&[rows, cols])?, randint(cols as i64, &[rows])?];
            Workload::new(inputs, |[x, t]| F::cross_entropy(x, t))
        }
        Spec::Embedding { count, rows, width } => {
            let inputs = [randint(rows as i64, &[count])?, x(&[rows, width])?];
            Workload::new(inputs, |[index, weight]| F::embedding(index, weight))
        }
        Spec::IndexSelect { count, rows, width } => {
            let inputs = [randint(rows as i64, &[count])?, x(&[rows, width])?];
            Workload::new(inputs, |[index, x]| x.index_select(0, index))
        }
        Spec::ScatterAdd { n, bins } => {
            let out = Tensor::zeros([bins], f32, cpu)?;
            let inputs = [randint(bins as i64, &[n])?, x(&[n])?, out];
            Workload::new(inputs, |[index, src, out]| out.scatter_add(0, index, src))
        }
        Spec::MaskedSelect { n } => Workload::new([x(&[n])?], |[x]| x.masked_select(&x.gt(0)?)),
        Spec::Sort { n } => Workload::new([x(&[n])?], |[x]| x.sort()),
        Spec::Topk { n, k } => Workload::new([x(&[n])?], move |[x]| x.topk(k)),
        Spec::Unique { n } => Workload::new([x(&[n])?], |[x]| x.unique()),
        Spec::Cumsum { n } => Workload::new([x(&[n])?], |[x]| x.cumsum(0)),
        Spec::Randn { n } => Workload::new([], move |[]| Tensor::randn([n], f32, cpu)),
        Spec::Rand { n } => Workload::new([], move |[]| Tensor::rand([n], f32, cpu)),
        Spec::Conv2d(c) => {
            let (inputs, options) = ([x(&c.input)?, randn(&c.weight())?], options(&c));
            Workload::new(inputs, move |[x, w]| F::conv2d_with(x, w, None, options))
        }
        Spec::Conv2dBackward(c) => {
            let (g, options) = (randn(&c.output())?, options(&c));
            let inputs = [x(&c.input)?, randn(&c.weight())?].map(|t| t.requires_grad_(true));
            backward(inputs, g, move |[x, w]| F::conv2d_with(x, w, None, options))
        }
        Spec::Conv1d { input, out, kernel } => {
            let inputs = [x(&input)?, randn(&[out, input[1], kernel])?];
            let options = Conv1dOptions::new().padding(kernel / 2);
            Workload::new(inputs, move |[x, w]| F::conv1d_with(x, w, None, options))
        }
        Spec::MaxPool {
            input,
            kernel,
            stride,
            padding,
        } => {
            let options = MaxPool2dOptions {
                stride: Some([stride as i64; 2]),
                padding: [padding as i64; 2],
                ..Default::default()
            };
            Workload::new([x(&input)?], move |[x]| {
                F::max_pool2d_with(x, kernel, options)
            })
        }
        Spec::AvgPool { input, kernel } => {
            let options = AvgPool2dOptions::default();
            Workload::new([x(&input)?], move |[x]| {
                F::avg_pool2d_with(x, kernel, options)
            })
        }
        Spec::Bilinear { input, factor } => {
            let options = InterpolateOptions::new()
                .scale_factor(factor as f64)
                .mode(InterpolateMode::Bilinear);
            Workload::new([x(&input)?], move |[x]| {
                F::interpolate_with(x, options.clone())
            })
        }
        Spec::BatchNorm { input } => {
            let b = BatchNorm2d::new(input[1])?;
            let state = state(&b);
            Workload::new([x(&input)?], move |[x]| b.forward(x)).with_state(state)
        }
        Spec::Attention(a) => {
            let inputs = [x(&a.shape)?, x(&a.shape)?, x(&a.shape)?];
            Workload::new(inputs, move |qkv| attend(&a, qkv))
        }
        Spec::AttentionBackward(a) => {
            let inputs = [x(&a.shape)?, x(&a.shape)?, x(&a.shape)?];
            let g = randn(&a.shape)?;
            backward(inputs.map(|t| t.requires_grad_(true)), g, move |qkv| {
                attend(&a, qkv)
            })
        }
        Spec::BlockAttention(a) => {
            let (inputs, mask) = ([x(&a.shape)?, x(&a.shape)?, x(&a.shape)?], blocks(&a)?);
            Workload::new(inputs, move |[q, k, v]| F::sparse_attention(q, k, v, &mask))
        }
        Spec::BlockAttentionBackward(a) => {
            let (inputs, mask) = ([x(&a.shape)?, x(&a.shape)?, x(&a.shape)?], blocks(&a)?);
            let g = randn(&a.shape)?;
            let inputs = inputs.map(|t| t.requires_grad_(true));
            backward(inputs, g, move |[q, k, v]| {
                F::sparse_attention(q, k, v, &mask)
            })
        }
        Spec::AddSelf { n } => Workload::new([x(&[n])?], |[x]| x.add(x)),
        Spec::View { rows, cols } => Workload::new([x(&[rows, cols])?], |[x]| x.t()),
        Spec::AutogradChain { ops } => {
            let a = Tensor::ones([1], f32, cpu)?.requires_grad_(true);
            Workload::new([a], move |[a]| {
                let mut y = a.clone();
                for _ in 0..ops {
                    y = y.mul(1.01)?;
                }
                y.backward()
            })
        }
        Spec::Step { rule, n } => {
            let (p, g) = (randn(&[n])?.requires_grad_(true), randn(&[n])?);
            p.set_grad(Some(g.clone()))?;
            let optimizer = optimizer(rule, vec![p.clone()])?;
            Workload::new([g], move |_| optimizer.step()).with_state(vec![p])
        }
        Spec::StepRows {
            rows,
            width,
            touched,
        } => {
            let p = randn(&[rows, width])?.requires_grad_(true);
            let optimizer = SparseAdam::new([&p], 1e-3)?;
            let inputs = [
                randint(rows as i64, &[1, touched])?,
                randn(&[touched, width])?,
            ];
            let table = p.clone();
            let step = move |[index, values]: &[Tensor; 2]| {
                // A pattern of its own each time: what a step derives from the indices is not kept for the next one.
                let pattern = Pattern::coo(&[rows, width], index, false)?;
                table.set_grad(Some(from_values(&pattern, values)?))?;
                optimizer.step()
            };
            Workload::new(inputs, step).with_state(vec![p])
        }
        Spec::Science(ref row) => row.make(layout)?,
        Spec::Train {
            ref model,
            batch,
            rule,
        } => train(model, batch, rule)?,
        Spec::Infer { ref model, batch } => {
            let net = model.build()?;
            net.eval();
            let state = state(&*net);
            let run = move |[x]: &[Tensor; 1]| inference_mode(|| net.forward(x));
            Workload::new([model.inputs(batch)?], run).with_state(state)
        }
    })
}

/// The parameters of a module and its buffers.
fn state(module: &(impl Module + ?Sized)) -> Vec<Tensor> {
    let parameters = module.parameters().into_iter().map(|p| Tensor::clone(&p));
    let buffers = module.buffers().into_iter().map(|b| Tensor::clone(&b));
    parameters.chain(buffers).collect()
}

fn pointwise(op: Op, n: usize, layout: Layout) -> Result<Workload> {
    let x = laid_out(&[n], layout)?;
    Ok(match op {
        Op::Add => Workload::new([x, laid_out(&[n], layout)?], |[x, y]| x.add(y)),
        Op::Exp => Workload::new([x], |[x]| x.exp()),
        Op::Gelu => Workload::new([x], |[x]| F::gelu(x)),
        Op::Tanh => Workload::new([x], |[x]| x.tanh()),
    })
}

fn options(c: &Conv) -> Conv2dOptions {
    Conv2dOptions {
        stride: [c.stride as i64; 2],
        padding: Padding::from(c.padding),
        groups: c.groups as i64,
        ..Default::default()
    }
}

fn attend(a: &Attention, [q, k, v]: &[Tensor; 3]) -> Result<Tensor> {
    let options = ScaledDotProductAttentionOptions::new().is_causal(a.causal);
    F::scaled_dot_product_attention_with(q, k, v, options)
}

/// The mask of an attention over stored blocks.
fn blocks(a: &BlockAttention) -> Result<BlockMask> {
    let length = a.shape[2];
    let window = AttentionWindow {
        past: 0,
        left: Some(a.reach()),
        right: Some(a.reach()),
    };
    let near = BlockMask::sliding_window(length, length, window)?;
    near.or(&BlockMask::global(length, length, a.tokens())?)
}

/// A call and the gradients of its inputs, where `g` is that of its result.
fn backward<const N: usize>(
    inputs: [Tensor; N],
    g: Tensor,
    f: impl Fn(&[Tensor; N]) -> Result<Tensor> + 'static,
) -> Workload {
    let all = inputs.iter().chain([&g]).cloned().collect();
    let g = [Some(g)];
    Workload {
        inputs: all,
        state: vec![],
        call: Box::new(move || {
            let y = f(&inputs)?;
            grad(&[y], &inputs, &g, false, false, false).map(Out::Many)
        }),
    }
}

fn optimizer<P: Into<ParamOrGroup>>(rule: Rule, params: Vec<P>) -> Result<Box<dyn Optimizer>> {
    Ok(match rule {
        Rule::Adam => Box::new(Adam::new(params, 1e-3)?),
        Rule::Sgd => Box::new(SGD::builder(params).lr(0.01).momentum(0.9).build()?),
    })
}

fn train(model: &Model, batch: usize, rule: Rule) -> Result<Workload> {
    let net = model.build()?;
    let state = state(&*net);
    let optimizer = optimizer(rule, net.parameters())?;
    let inputs = [model.inputs(batch)?, model.targets(batch)?];
    let step = move |[x, t]: &[Tensor; 2]| {
        optimizer.zero_grad();
        let loss = F::cross_entropy(&net.forward(x)?, t)?;
        loss.backward()?;
        optimizer.step()?;
        Ok(loss)
    };
    Ok(Workload::new(inputs, step).with_state(state))
}
