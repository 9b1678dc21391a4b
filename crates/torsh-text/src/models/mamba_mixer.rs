//! The mixer of Mamba: a short convolution and a selective scan.

use torsh_functional as F;
use torsh_nn::construct::{self, Construction};
use torsh_nn::{Conv1d, Linear, Module, Parameter, init as draw};
use torsh_tensor::{DType, Result, Tensor, TorshError, cat, no_grad};

use super::mamba_config::MambaConfig;
use crate::blocks::{Activation, KvCache, init};

#[derive(Module)]
pub(super) struct MambaMixer {
    #[module(rename = "A_log")]
    a_log: Parameter,
    #[module(rename = "D")]
    d: Parameter,
    conv1d: Conv1d,
    in_proj: Linear,
    x_proj: Linear,
    dt_proj: Linear,
    out_proj: Linear,
    #[module(skip)]
    activation: Activation,
    #[module(skip)]
    layer: usize,
}

impl MambaMixer {
    pub(super) fn new(c: &MambaConfig, layer: usize) -> Result<MambaMixer> {
        let (width, inner, state) = (c.hidden_size, c.intermediate_size(), c.state_size);
        let (rank, std) = (c.rank(), c.initializer_range);
        let empty = |shape: &[usize]| {
            let tensor = Tensor::empty(shape, construct::dtype(), construct::device())?;
            Parameter::with_requires_grad(tensor, true)
        };
        let kernel = c.conv_kernel as i64;
        let conv1d = || {
            Conv1d::builder(inner, inner, kernel)
                .groups(inner as i64)
                .padding(kernel - 1)
                .bias(c.use_conv_bias)
                .build()
        };
        let mixer = MambaMixer {
            a_log: empty(&[inner, state])?,
            d: empty(&[inner])?,
            conv1d: Construction::new().draw_nothing().run(conv1d)?,
            in_proj: init::linear(width, 2 * inner, c.use_bias, std)?,
            x_proj: init::linear(inner, rank + 2 * state, false, std)?,
            dt_proj: init::linear(rank, inner, true, std)?,
            out_proj: init::linear(inner, width, c.use_bias, std)?,
            activation: c.hidden_act,
            layer,
        };
        if !construct::draws_nothing() {
            mixer.draw(c)?;
        }
        Ok(mixer)
    }

    /// Draws the weights that have distributions of their own.
    fn draw(&self, c: &MambaConfig) -> Result<()> {
        let uniform = |w: &Tensor| {
            let options = draw::KaimingOptions::default().a(5f64.sqrt());
            draw::kaiming_uniform_with(w, options)
        };
        uniform(&self.conv1d.weight)?;
        if let Some(bias) = &self.conv1d.bias {
            draw::zeros_(bias)?;
        }
        uniform(&self.out_proj.weight)?;
        let std = c.time_step_scale / (c.rank() as f64).sqrt();
        match &*c.time_step_init_scheme {
            "constant" => draw::constant_(&self.dt_proj.weight, std)?,
            _ => draw::uniform_(&self.dt_proj.weight, -std, std)?,
        };
        draw::ones_(&self.d)?;
        no_grad(|| {
            if c.rescale_prenorm_residual {
                let layers = c.num_hidden_layers as f64;
                self.out_proj.weight.div_(layers.sqrt())?;
            }
            // Each number decays at rates of 1, 2, 3, ..
            let rates: Vec<f32> = (1..=c.state_size).map(|n| (n as f32).ln()).collect();
            let rates = Tensor::from_vec(rates, [1, c.state_size])?;
            let device = self.a_log.device();
            self.a_log
                .copy_(&rates.to_device(device)?.expand(self.a_log.shape())?)?;
            let Some(bias) = &self.dt_proj.bias else {
                return Ok(());
            };
            // Time steps from the shortest to the longest, evenly by their logarithms; softplus gives them back.
            let (low, high) = (c.time_step_min.ln(), c.time_step_max.ln());
            let steps = Tensor::rand([bias.numel()], DType::F32, device)?
                .mul(high - low)?
                .add(low)?
                .exp()?
                .clamp_min(c.time_step_floor)?;
            let before = steps.neg()?.expm1()?.neg()?.log()?.add(&steps)?;
            bias.copy_(&before)?;
            Ok(())
        })
    }

    /// `seen` is 1 for tokens and 0 for padding, `[batch, tokens, 1]`.
    pub(super) fn run(
        &self,
        x: &Tensor,
        seen: Option<&Tensor>,
        cache: Option<&mut KvCache>,
    ) -> Result<Tensor> {
        let masked = |x: &Tensor| match seen {
            Some(seen) => x.mul(seen.to_dtype(x.dtype())?),
            None => Ok(x.clone()),
        };
        let &[_, tokens, _] = x.dims() else {
            return Err(TorshError::shape(
                "Mamba",
                format!("expected [batch, tokens, width], got {}", x.shape()),
            ));
        };
        let dtype = x.dtype();
        let inner = self.d.numel();
        let both = self.in_proj.forward(&masked(x)?)?;
        let u = both.narrow(-1, 0, inner)?.transpose(1, 2)?;
        let gate = both.narrow(-1, inner, inner)?;

        // The convolution sees the tokens before the step's.
        let state = cache.as_deref().map_or(&[][..], |c| c.state(self.layer));
        let before = self.conv1d.weight.size(2)? - 1;
        let (u, old) = match state {
            [inputs, state, ..] => (cat(&[inputs, &u], 2)?, Some(state.clone())),
            _ => (F::pad(&u, [before, 0])?, None),
        };
        let inputs = u.narrow(2, tokens, before)?;
        let options = F::ConvOptions {
            groups: inner as i64,
            ..F::ConvOptions::default()
        };
        let (weight, bias) = (self.conv1d.weight.tensor(), self.conv1d.bias.as_deref());
        let u = F::conv1d_with(&u, weight, bias, options)?;
        let u = masked(&self.activation.apply(&u)?.transpose(1, 2)?)?;

        let (scanned, last) = self.scan(&u, old)?;
        if let Some(cache) = cache {
            let state = vec![inputs.contiguous()?, last];
            cache.set_state(self.layer, state, tokens)?;
        }
        let y = scanned.add(u.mul(self.d.to_dtype(wide(dtype))?)?)?;
        let y = y.mul(F::silu(&gate)?)?.to_dtype(dtype)?;
        self.out_proj.forward(&y)
    }

    /// The selective scan: the sequence `[batch, tokens, inner]` that the states give, and the last state
    /// `[batch, inner, state_size]`.
    fn scan(&self, u: &Tensor, old: Option<Tensor>) -> Result<(Tensor, Tensor)> {
        let (dtype, sizes) = (u.dtype(), self.a_log.dims());
        let rank = self.dt_proj.in_features();
        let all = self.x_proj.forward(u)?;
        let part = |at: usize, size: usize| all.narrow(-1, at, size);
        let (b, c) = (part(rank, sizes[1])?, part(rank + sizes[1], sizes[1])?);
        let step = self.dt_proj.forward(&part(0, rank)?)?;
        let step = F::softplus(&step)?.unsqueeze(-1)?;
        // All of this is float32, as in the references, but what float64 multiplies.
        let narrow = |x: &Tensor| x.to_dtype(DType::F32);
        let a = narrow(&self.a_log)?.exp()?.neg()?;
        let decay = step.mul(&a)?.exp()?;
        let gain = step
            .mul(narrow(u)?.unsqueeze(-1)?)?
            .mul(narrow(&b)?.unsqueeze(2)?)?;

        let mut states = Vec::with_capacity(decay.dims()[1]);
        let mut state = old;
        for (decay, gain) in decay.unbind(1)?.iter().zip(&gain.unbind(1)?) {
            let next = match &state {
                Some(state) => gain.addcmul(decay, state)?,
                None => gain.clone(),
            };
            states.push(next.clone());
            state = Some(next);
        }
        let Some(last) = state else {
            return Err(TorshError::invalid("Mamba", "there are no tokens"));
        };
        let states = Tensor::stack(&states, 1)?.to_dtype(dtype)?;
        let y = states.matmul(&c.unsqueeze(-1)?)?.squeeze(-1)?;
        Ok((y, last.contiguous()?))
    }
}

/// Float64 stays, all else is computed in float32.
fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}

impl Module for MambaMixer {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.run(x, None, None)
    }
}
