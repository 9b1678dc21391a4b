//! ToRSh as the executor: calls by name through the table of operators.

use std::sync::{Mutex, MutexGuard, PoisonError};

use torsh_core::{DType, Device, TorshError};
use torsh_tensor::{Operand as TensorOperand, Tensor, TensorLayout, Value as Arg, ops};

use crate::case::Value;
use crate::executor::{Call, Executor, ModuleCall, ModuleOutcome, Outcome};
use crate::layouts::Memory;
use crate::modules;
use crate::parts::{Operand, Parts};
use crate::tensors::{Dtype, Element, TensorData};
use crate::training::{optim, random, runs, schedule, schedulers};

/// Calls ToRSh on the CPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct Torsh;

impl Executor for Torsh {
    fn has(&self, op: &str) -> bool {
        ops::find(op).is_some() || METHODS.contains(&op)
    }

    fn call(&self, call: &Call) -> Result<Outcome, String> {
        call_on(Device::Cpu, call)
    }

    fn module(&self, call: &ModuleCall) -> Option<Result<ModuleOutcome, String>> {
        modules::call(call, Device::Cpu)
    }

    fn draw(&self, draw: &random::Draw) -> Option<Result<TensorData, String>> {
        random::draw(draw)
    }

    fn optimize(&self, steps: &optim::Steps) -> Option<Result<optim::Stepped, String>> {
        optim::optimize(steps)
    }

    fn schedule(&self, schedule: &schedule::Schedule) -> Option<Result<schedule::Rates, String>> {
        schedulers::follow(schedule)
    }

    fn train(&self, run: &runs::Run) -> Option<Result<runs::Trained, String>> {
        runs::train(run)
    }

    fn print(&self, value: &Memory, doubled: bool) -> Result<String, String> {
        printed(tensor(value, Device::Cpu)?, doubled)
    }

    fn sparse(&self, call: &Call<Operand<Memory>>) -> Result<Outcome<Operand>, String> {
        call_on(Device::Cpu, call)
    }

    fn print_sparse(&self, value: &Parts<Memory>, doubled: bool) -> Result<String, String> {
        printed(value.tensor(Device::Cpu)?, doubled)
    }
}

fn printed(tensor: Tensor, doubled: bool) -> Result<String, String> {
    if !doubled {
        return Ok(tensor.to_string());
    }
    match ops::call("mul", &[Arg::Tensor(tensor), Arg::Int(2)], &[]).map_err(text)? {
        Arg::Tensor(product) => Ok(product.to_string()),
        other => Err(format!("mul gave {other:?}")),
    }
}

/// A tensor of a call, as ToRSh's own, and back.
pub(crate) trait Given {
    /// What results are read as.
    type Data;

    /// The tensor on a device, a leaf.
    fn tensor(&self, device: Device) -> Result<Tensor, String>;

    /// Whether its gradient may be asked for.
    fn requires_grad(&self) -> bool;

    /// The values of a result.
    fn read(tensor: &Tensor) -> Result<Self::Data, String>;

    /// Of values that are no tensor's.
    fn number(data: TensorData) -> Self::Data;
}

impl Given for Memory {
    type Data = TensorData;

    fn tensor(&self, device: Device) -> Result<Tensor, String> {
        tensor(self, device)
    }

    fn requires_grad(&self) -> bool {
        self.requires_grad
    }

    fn read(tensor: &Tensor) -> Result<TensorData, String> {
        data(tensor)
    }

    fn number(data: TensorData) -> TensorData {
        data
    }
}

/// Runs one call on a device: its tensors are moved there, and results and gradients read back.
pub(crate) fn call_on<M: Given>(
    device: Device,
    call: &Call<M>,
) -> Result<Outcome<M::Data>, String> {
    let done = outcome(device, call);
    // What was found wrong after the call returned belongs to it, and to no later one.
    let late = torsh_tensor::devices::synchronize(device).map_err(text);
    done.and_then(|outcome| late.map(|()| outcome))
}

/// Methods of tensors that no call by name has.
const METHODS: [&str; 3] = ["add_", "detach", "mul_"];

fn method(op: &str, args: &[Arg]) -> Result<Arg, String> {
    let Some(Arg::Tensor(x)) = args.first() else {
        return Err(format!("{op} of what is no tensor"));
    };
    let operand = || match args.get(1) {
        Some(Arg::Tensor(t)) => Ok(TensorOperand::from(t)),
        Some(number) => number
            .number()
            .map(TensorOperand::Number)
            .ok_or_else(|| format!("{op} of {number:?}")),
        None => Err(format!("{op} without a second operand")),
    };
    match op {
        "add_" => x.add_(operand()?),
        "mul_" => x.mul_(operand()?),
        _ => Ok(x.detach()),
    }
    .map(Arg::Tensor)
    .map_err(text)
}

fn outcome<M: Given>(device: Device, call: &Call<M>) -> Result<Outcome<M::Data>, String> {
    let mut leaves = Vec::new();
    let mut args = Vec::new();
    for value in &call.args {
        args.push(argument(value, device, &mut leaves)?);
    }
    let mut kwargs = Vec::new();
    for (name, value) in &call.kwargs {
        let value = match (name.as_str(), value) {
            ("device", Value::Str(name)) => match name.parse().map_err(text)? {
                // The database was made on the CPU.
                Device::Cpu => Arg::Device(device),
                other => Arg::Device(other),
            },
            _ => argument(value, device, &mut leaves)?,
        };
        kwargs.push((name.as_str(), value));
    }
    if !device.is_host() && creates(call) {
        kwargs.push(("device", Arg::Device(device)));
    }
    if call.writes
        && let Some(first) = args.first_mut()
    {
        *first = ops::call("clone", std::slice::from_ref(first), &[]).map_err(text)?;
    }
    in_torch_order(&call.op, &mut args);
    products_of_factors(&call.op, &mut args)?;
    let mut outputs = Vec::new();
    let seeded = seeded(&call.op);
    let result = match METHODS.contains(&call.op.as_str()) {
        true => method(&call.op, &args),
        false => ops::call(&call.op, &args, &kwargs).map_err(text),
    }?;
    torsh_tensor::devices::synchronize(device).map_err(text)?;
    flatten(result, &mut outputs)?;
    drop(seeded);
    if let Some(expected) = &call.eigenvalues {
        in_order_of(expected, &mut outputs)?;
    }
    for (output, calls) in outputs.iter_mut().zip(&call.after) {
        for after in calls.iter().flatten() {
            let Output::Tensor(t) = output else {
                return Err(format!("{} of an output that is no tensor", after.op));
            };
            // A strided result is dense already.
            if after.op == "to_dense" && t.layout().is_strided() {
                continue;
            }
            let args: Vec<Arg> = [Arg::Tensor(t.clone())]
                .into_iter()
                .chain(after.args.iter().map(|i| Arg::Int(*i)))
                .collect();
            match ops::call(&after.op, &args, &[]).map_err(text)? {
                Arg::Tensor(t) => *output = Output::Tensor(t),
                other => return Err(format!("{} gave {other:?}", after.op)),
            }
        }
    }
    let there = |what: &str, t: &Tensor| match t.device() == device {
        true => Ok(()),
        false => Err(format!("{what} is on {}, not on {device}", t.device())),
    };
    for (i, output) in outputs.iter().enumerate() {
        if let Output::Tensor(t) = output {
            there(&format!("output {i}"), t)?;
        }
    }
    let grads = call.cotangents.as_ref().map(|c| {
        let grads = gradients(&outputs, c, device, &leaves)?;
        for (i, g) in grads.iter().enumerate() {
            g.as_ref()
                .map_or(Ok(()), |g| there(&format!("gradient {i}"), g))?;
        }
        grads
            .iter()
            .map(|g| g.as_ref().map(M::read).transpose())
            .collect()
    });
    let outputs = outputs
        .iter()
        .map(Output::read::<M>)
        .collect::<Result<_, _>>()?;
    Ok(Outcome { outputs, grads })
}

/// Puts eigenvalues, and the columns of their vectors, in the order of the nearest expected ones, each once.
fn in_order_of(expected: &TensorData, outputs: &mut [Output]) -> Result<(), String> {
    let Some(Output::Tensor(values)) = outputs.first() else {
        return Err("the first output is no tensor".to_string());
    };
    let got = data(values)?;
    let n = got.shape.last().copied().unwrap_or(0);
    if got.shape != expected.shape || n == 0 {
        return Ok(());
    }
    let mut order = Vec::with_capacity(got.numel());
    for row in 0..got.numel() / n {
        let mut left: Vec<usize> = (0..n).collect();
        for i in 0..n {
            let want = expected.get(row * n + i);
            let off = |j: &usize| crate::compare::distance(got.get(row * n + j), want);
            let nearest = (0..left.len())
                .min_by(|a, b| off(&left[*a]).total_cmp(&off(&left[*b])))
                .ok_or("no eigenvalue is left")?;
            order.push(left.remove(nearest) as i64);
        }
    }
    let index = Tensor::from_slice(&order, &got.shape[..], DType::I64, values.device());
    let index = index.map_err(text)?;
    let sorted = values.gather(-1, &index).map_err(text)?;
    let vectors = match outputs.get(1) {
        Some(Output::Tensor(v)) => {
            let columns = index.unsqueeze(-2).and_then(|i| i.expand(v.shape()));
            Some(columns.and_then(|c| v.gather(-1, &c)).map_err(text)?)
        }
        _ => None,
    };
    outputs[0] = Output::Tensor(sorted);
    if let Some(v) = vectors {
        outputs[1] = Output::Tensor(v);
    }
    Ok(())
}

/// Whether a call makes tensors of numbers alone, on the device that its argument names.
fn creates<M>(call: &Call<M>) -> bool {
    let kwargs = call.kwargs.iter().map(|(_, v)| v);
    let mut tensors = call.args.iter().chain(kwargs).flat_map(Value::tensors);
    tensors.next().is_none()
        && call.kwargs.iter().all(|(name, _)| name != "device")
        && ops::find(&call.op).is_some_and(|all| all.iter().any(|r| r.schema.contains(" device=")))
}

/// Seeds the generator as the database does before a call that may draw, and keeps other such
/// calls waiting.
fn seeded(op: &str) -> Option<MutexGuard<'static, ()>> {
    let draws = matches!(
        op,
        "nn.functional.scaled_dot_product_attention" | "nn.functional.multi_head_attention_forward"
    );
    if !draws {
        return None;
    }
    let guard = drawing();
    torsh_core::random::manual_seed(42);
    Some(guard)
}

/// Keeps other threads' use of the generator waiting while the guard lives.
pub(crate) fn drawing() -> MutexGuard<'static, ()> {
    static DRAWING: Mutex<()> = Mutex::new(());
    DRAWING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the error says, without where in the source it was made: a path or a backtrace would name
/// almost any operator.
pub(crate) fn text(error: TorshError) -> String {
    let text = error.to_string();
    let place = error
        .info()
        .and_then(|i| text.find(&format!("\n  at {}", i.location)));
    text[..place.unwrap_or(text.len())].to_string()
}

/// The positional arguments as PyTorch takes them. The database has four exceptions: `where`
/// with (self, condition, other), `einsum` with (tensors, equation), the embeddings with
/// (weight, indices), and `polygamma` with the tensor first, as its method takes them.
fn in_torch_order(op: &str, args: &mut [Arg]) {
    let swapped = [
        "where",
        "einsum",
        "nn.functional.embedding",
        "nn.functional.embedding_bag",
        "polygamma",
        "special.polygamma",
    ];
    if swapped.contains(&op) && args.len() >= 2 {
        args.swap(0, 1);
    }
}

/// The database's function for singular matrices is the pseudoinverse of a product `a b^T`.
fn products_of_factors(op: &str, args: &mut Vec<Arg>) -> Result<(), String> {
    if let ("linalg.pinv", [Arg::Tensor(a), Arg::Tensor(b)]) = (op, &args[..]) {
        let product = b.transpose(-2, -1).and_then(|t| a.matmul(&t));
        *args = vec![Arg::Tensor(product.map_err(text)?)];
    }
    Ok(())
}

/// The dtype in ToRSh's own terms.
pub(crate) fn dtype(dtype: Dtype) -> Result<DType, String> {
    dtype.name().parse().map_err(text)
}

/// The layout of a name as `csr`, in ToRSh's own terms.
pub(crate) fn layout(name: &str) -> Result<TensorLayout, String> {
    let known = TensorLayout::from_name(name);
    let known = known.or_else(|| TensorLayout::from_name(&format!("sparse_{name}")));
    known.ok_or_else(|| format!("unknown layout {name}"))
}

/// Moves the whole buffer to the device, then takes the strided window there.
pub(crate) fn tensor(memory: &Memory, device: Device) -> Result<Tensor, String> {
    let dtype = dtype(memory.dtype)?;
    let length = memory.bytes.len() / memory.dtype.size();
    let buffer = Tensor::from_bytes(&memory.bytes, dtype, [length])
        .and_then(|t| t.to_device(device))
        .map_err(text)?;
    let ints = |v: &[usize]| v.iter().map(|&n| n as i64).collect::<Vec<_>>();
    let (size, stride) = (ints(&memory.shape), ints(&memory.strides));
    let window = buffer
        .as_strided_at(&size, &stride, memory.offset as i64)
        .map_err(text)?;
    // Cut off, so that the window is a leaf and no view that autograd keeps the base of.
    let window = window.detach();
    if memory.requires_grad {
        window.set_requires_grad(true).map_err(text)?;
    }
    Ok(window)
}

fn argument<M: Given>(
    value: &Value<M>,
    device: Device,
    leaves: &mut Vec<Tensor>,
) -> Result<Arg, String> {
    let mut list = |v: &[Value<M>]| {
        v.iter()
            .map(|x| argument(x, device, leaves))
            .collect::<Result<Vec<_>, _>>()
    };
    Ok(match value {
        Value::None => Arg::None,
        Value::Bool(b) => Arg::Bool(*b),
        Value::Int(i) => Arg::Int(*i),
        Value::Float(x) => Arg::Float(*x),
        Value::Complex(re, im) => Arg::Complex(num_complex::Complex::new(*re, *im)),
        Value::Str(s) => Arg::Str(s.clone()),
        Value::Dtype(d) => Arg::DType(dtype(*d)?),
        Value::Layout(name) => Arg::Layout(layout(name)?),
        Value::Tensor(memory) => {
            let tensor = memory.tensor(device)?;
            if memory.requires_grad() {
                leaves.push(tensor.clone());
            }
            Arg::Tensor(tensor)
        }
        Value::List(v) => Arg::List(list(v)?),
        Value::Tuple(v) => Arg::Tuple(list(v)?),
        Value::Slice([start, stop, step]) => Arg::Slice(*start, *stop, *step),
        Value::Ellipsis => Arg::Ellipsis,
    })
}

/// One output: a tensor, or a number or boolean as a 0-d tensor's data.
enum Output {
    Tensor(Tensor),
    Number(TensorData),
}

impl Output {
    fn read<M: Given>(&self) -> Result<M::Data, String> {
        match self {
            Output::Tensor(t) => M::read(t),
            Output::Number(n) => Ok(M::number(n.clone())),
        }
    }
}

pub(crate) fn data(tensor: &Tensor) -> Result<TensorData, String> {
    let name = tensor.dtype().name();
    Ok(TensorData {
        dtype: Dtype::from_name(name).ok_or_else(|| format!("a result of dtype {name}"))?,
        shape: tensor.shape().dims().to_vec(),
        bytes: tensor.to_bytes().map_err(text)?,
    })
}

fn flatten(value: Arg, out: &mut Vec<Output>) -> Result<(), String> {
    let number = |dtype, element| Output::Number(TensorData::from_elements(dtype, &[], &[element]));
    match value {
        Arg::Tensor(t) => out.push(Output::Tensor(t)),
        Arg::List(v) | Arg::Tuple(v) => {
            for x in v {
                flatten(x, out)?;
            }
        }
        Arg::Bool(b) => out.push(number(Dtype::Bool, Element::Bool(b))),
        Arg::Int(i) => out.push(number(Dtype::Int64, Element::Int(i))),
        // What `torch.tensor` makes of a Python float.
        Arg::Float(x) => out.push(number(Dtype::Float32, Element::Float(x))),
        // A result that was not asked for, as the weights of attention.
        Arg::None => {}
        other => return Err(format!("a result of {other:?}")),
    }
    Ok(())
}

fn gradients<M: Given>(
    outputs: &[Output],
    cotangents: &[(usize, M)],
    device: Device,
    leaves: &[Tensor],
) -> Result<Vec<Option<Tensor>>, String> {
    let (mut differentiated, mut seeds) = (Vec::new(), Vec::new());
    for (i, cotangent) in cotangents {
        match outputs.get(*i) {
            Some(Output::Tensor(t)) => differentiated.push(t.clone()),
            _ => return Err(format!("output {i} is no tensor")),
        }
        seeds.push(Some(cotangent.tensor(device)?));
    }
    torsh_tensor::grad(&differentiated, leaves, &seeds, false, false, true).map_err(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layouts::Layout;

    fn floats(v: &[f64], layout: Layout, requires_grad: bool) -> Memory {
        let e: Vec<_> = v.iter().map(|&x| Element::Float(x)).collect();
        let data = TensorData::from_elements(Dtype::Float64, &[v.len()], &e);
        Memory::arrange(&data, layout, requires_grad)
    }

    #[test]
    fn a_call_gives_values_and_gradients_in_every_layout() {
        for layout in Layout::ALL {
            let (a, b) = (
                floats(&[1.0, 2.0], layout, true),
                floats(&[3.0, 5.0], layout, true),
            );
            let call = Call {
                op: "mul".to_string(),
                args: vec![Value::Tensor(a), Value::Tensor(b)],
                kwargs: Vec::new(),
                writes: false,
                cotangents: Some(vec![(0, floats(&[1.0, 10.0], layout, false))]),
                after: Vec::new(),
                eigenvalues: None,
            };
            let outcome = Torsh.call(&call).unwrap();
            let data = |v: &[f64]| floats(v, Layout::Contiguous, false).to_data();
            assert_eq!(outcome.outputs, [data(&[3.0, 10.0])], "{layout}");
            let grads = outcome.grads.unwrap().unwrap();
            assert_eq!(
                grads,
                [Some(data(&[3.0, 50.0])), Some(data(&[1.0, 20.0]))],
                "{layout}"
            );
        }
    }

    #[test]
    fn an_error_comes_without_its_place() {
        let call = Call {
            op: "mul".to_string(),
            args: vec![
                Value::Tensor(floats(&[1.0, 2.0], Layout::Contiguous, false)),
                Value::Tensor(floats(&[1.0, 2.0, 3.0], Layout::Contiguous, false)),
            ],
            kwargs: Vec::new(),
            writes: false,
            cotangents: None,
            after: Vec::new(),
            eigenvalues: None,
        };
        let error = Torsh.call(&call).unwrap_err();
        assert!(
            error.starts_with("mul: ") && !error.contains(".rs"),
            "{error}"
        );
        assert!(Torsh.has("mul") && !Torsh.has("no such operator"));
    }

    #[test]
    fn arguments_come_in_torch_order() {
        let mut args = vec![Arg::Int(0), Arg::Int(1), Arg::Int(2)];
        in_torch_order("where", &mut args);
        assert!(matches!(args[..], [Arg::Int(1), Arg::Int(0), Arg::Int(2)]));
        in_torch_order("add", &mut args);
        assert!(matches!(args[..], [Arg::Int(1), Arg::Int(0), Arg::Int(2)]));
    }
}
