//! The stack machine of Python's `pickle`, protocols 0 to 5, restricted.
//!
//! Objects lie in an arena and refer to each other by number, so neither depth nor sharing costs
//! anything here: what is built of them is bounded in `build`. Each opcode makes at most one
//! object, so the arena is bounded by the pickle's length.

use std::collections::HashMap;
use std::rc::Rc;

use num_complex::Complex;
use torsh_core::{DType, Device, TensorLayout};

use super::globals::{self, Global};
use super::reduce;
use crate::BigInt;
use crate::stored::Stored;

/// The number of an object in the arena.
pub(super) type Id = usize;

/// What is said where the pickle's bytes do not suffice.
pub(super) const CUT: &str = "the pickle is cut off";

/// Why a pickle is refused.
#[derive(Debug)]
pub(super) struct Why {
    pub(super) what: String,
    pub(super) hint: Option<&'static str>,
}

impl Why {
    pub(super) fn new(what: impl Into<String>) -> Why {
        Why {
            what: what.into(),
            hint: None,
        }
    }
}

impl From<&str> for Why {
    fn from(what: &str) -> Why {
        Why::new(what)
    }
}

impl From<String> for Why {
    fn from(what: String) -> Why {
        Why::new(what)
    }
}

pub(super) type Res<T> = Result<T, Why>;

/// A storage as the pickle names it.
#[derive(Clone, Debug)]
pub(super) struct StorageRef {
    pub(super) key: String,
    pub(super) stored: Stored,
    /// Its length in elements.
    pub(super) numel: usize,
}

/// A tensor that is to be made when its storage is there.
#[derive(Clone, Debug)]
pub(super) struct TensorRef {
    /// The storage's place in [`Object::storages`].
    pub(super) storage: usize,
    /// How its numbers are stored: as its storage says, but for storages of bytes.
    pub(super) stored: Stored,
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
    pub(super) stride: Vec<usize>,
    pub(super) requires_grad: bool,
}

/// A sparse tensor that is to be made of its parts.
#[derive(Clone, Debug)]
pub(super) struct SparseRef {
    pub(super) layout: TensorLayout,
    /// The objects of its indices: all of them for COO, else the compressed and the plain ones.
    pub(super) indices: Vec<Id>,
    /// The object of its values.
    pub(super) values: Id,
    pub(super) shape: Vec<usize>,
    pub(super) coalesced: bool,
}

/// The contents of an array of NumPy.
#[derive(Clone, Debug)]
pub(super) struct ArrayRef {
    /// The code of its dtype, as `f4`.
    pub(super) code: String,
    pub(super) big: bool,
    pub(super) shape: Vec<usize>,
    /// Whether it is stored column by column.
    pub(super) fortran: bool,
    /// The object of its bytes.
    pub(super) data: Id,
}

/// What is kept of an object for which there is no value.
#[derive(Debug)]
pub(super) struct ForeignNode {
    /// What it is, and why there is no value; objects of one class share it.
    pub(super) about: Rc<(String, String)>,
    /// Its arguments, and its items where it is a list.
    pub(super) parts: Vec<Id>,
    /// Its items where it is a dict.
    pub(super) pairs: Vec<(Id, Id)>,
    pub(super) state: Option<Id>,
    /// Whether it is a class or function itself.
    pub(super) global: bool,
}

impl ForeignNode {
    pub(super) fn new(what: impl Into<String>, why: impl Into<String>) -> ForeignNode {
        ForeignNode {
            about: Rc::new((what.into(), why.into())),
            parts: Vec::new(),
            pairs: Vec::new(),
            state: None,
            global: false,
        }
    }
}

#[derive(Debug)]
pub(super) enum Node {
    None,
    Bool(bool),
    Int(i64),
    Big(BigInt),
    Float(f64),
    Complex(Complex<f64>),
    Str(String),
    Bytes(Vec<u8>),
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Set(Vec<Id>),
    Size(Vec<usize>),
    DType(DType),
    Device(Device),
    Tensor(TensorRef),
    Sparse(SparseRef),
    Parameter {
        tensor: Id,
        requires_grad: bool,
    },
    Global(Global),
    /// A storage and the first element of a view of it.
    Storage {
        storage: usize,
        offset: usize,
    },
    /// A dtype of NumPy: its code, and whether it is big-endian.
    NumpyDType {
        code: String,
        big: bool,
    },
    /// An object of a TorchScript program: its attributes.
    Script(Option<Id>),
    /// An array of NumPy, which gets its contents as its state.
    Array(Option<ArrayRef>),
    /// An object of a class that is kept as data: what it was made of, and its state.
    Record {
        arguments: Vec<Id>,
        state: Option<Id>,
    },
    /// An object for which there is no value.
    Foreign(Box<ForeignNode>),
}

/// What a pickle made.
pub(super) struct Object {
    pub(super) nodes: Vec<Node>,
    pub(super) root: Id,
    pub(super) storages: Vec<StorageRef>,
    /// The pickle's length in bytes, in proportion to which values may be built.
    pub(super) length: usize,
}

/// The bytes of one or more pickles.
pub(super) struct Input<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { bytes, at: 0 }
    }

    fn take(&mut self, n: usize) -> Res<&'a [u8]> {
        let end = self.at.checked_add(n);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or(CUT)?;
        self.at += n;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Res<[u8; N]> {
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| CUT.into())
    }

    fn byte(&mut self) -> Res<u8> {
        self.array::<1>().map(|[b]| b)
    }

    fn u32(&mut self) -> Res<usize> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    fn u64(&mut self) -> Res<usize> {
        usize::try_from(u64::from_le_bytes(self.array()?)).map_err(|_| CUT.into())
    }

    /// The bytes up to the end of the line.
    fn raw_line(&mut self) -> Res<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let n = rest.iter().position(|&b| b == b'\n');
        let n = n.ok_or(CUT)?;
        self.at += n + 1;
        Ok(&rest[..n])
    }

    /// The text up to the end of the line.
    fn line(&mut self) -> Res<&'a str> {
        text(self.raw_line()?)
    }
}

/// A text of protocol 0: Latin-1 with `\uXXXX` and `\UXXXXXXXX` for what it lacks (Python's `raw_unicode_escape`).
fn unescaped(mut bytes: &[u8]) -> Res<String> {
    let wrong = || Why::new("the pickle has a text with wrong escapes");
    let mut out = String::with_capacity(bytes.len());
    while let [first, rest @ ..] = bytes {
        let digits = match (first, rest) {
            (b'\\', [b'u', ..]) => 4,
            (b'\\', [b'U', ..]) => 8,
            _ => {
                out.push(char::from(*first));
                bytes = rest;
                continue;
            }
        };
        let code = rest.get(1..=digits).ok_or_else(wrong)?;
        if !code.iter().all(u8::is_ascii_hexdigit) {
            return Err(wrong());
        }
        let code = u32::from_str_radix(text(code)?, 16).map_err(|_| wrong())?;
        out.push(char::from_u32(code).ok_or_else(wrong)?);
        bytes = &rest[1 + digits..];
    }
    Ok(out)
}

fn text(bytes: &[u8]) -> Res<&str> {
    std::str::from_utf8(bytes).map_err(|_| "a text of the pickle is not UTF-8".into())
}

pub(super) struct Machine {
    pub(super) nodes: Vec<Node>,
    stack: Vec<Id>,
    /// Where on the stack marks are.
    marks: Vec<usize>,
    memo: HashMap<usize, Id>,
    pub(super) storages: Vec<StorageRef>,
    pub(super) keys: HashMap<String, usize>,
    /// Whether it is the pickle of a TorchScript archive.
    script: bool,
    /// The modules whose classes are kept as records.
    records: Vec<String>,
    /// Whether what there is no value for is kept as such; else it is an error.
    keep_foreign: bool,
}

/// Runs one pickle.
pub(super) fn unpickle(input: &mut Input, keep_foreign: bool) -> Res<Object> {
    run(input, false, &[], keep_foreign)
}

/// Runs the pickle of a TorchScript archive, whose objects are of classes of its program.
pub(super) fn unpickle_script(input: &mut Input, keep_foreign: bool) -> Res<Object> {
    run(input, true, &[], keep_foreign)
}

/// Runs a pickle in which objects of the classes of some modules are kept as their data.
pub(super) fn unpickle_records(
    input: &mut Input,
    modules: &[&str],
    keep_foreign: bool,
) -> Res<Object> {
    run(input, false, modules, keep_foreign)
}

fn run(input: &mut Input, script: bool, records: &[&str], keep_foreign: bool) -> Res<Object> {
    let start = input.at;
    let mut machine = Machine {
        nodes: Vec::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        storages: Vec::new(),
        keys: HashMap::new(),
        script,
        records: records.iter().map(|m| m.to_string()).collect(),
        keep_foreign,
    };
    while machine.step(input)? {}
    let root = machine.pop()?;
    Ok(Object {
        nodes: machine.nodes,
        root,
        storages: machine.storages,
        length: input.at - start,
    })
}

impl Machine {
    pub(super) fn node(&mut self, node: Node) -> Id {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn push(&mut self, node: Node) {
        let id = self.node(node);
        self.stack.push(id);
    }

    fn pop(&mut self) -> Res<Id> {
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= floor {
            return Err("the pickle takes from an empty stack".into());
        }
        self.stack
            .pop()
            .ok_or_else(|| "the pickle takes from an empty stack".into())
    }

    fn top(&self) -> Res<Id> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.last() {
            Some(&id) if self.stack.len() > floor => Ok(id),
            _ => Err("the pickle takes from an empty stack".into()),
        }
    }

    fn pop_n<const N: usize>(&mut self) -> Res<[Id; N]> {
        let mut out = [0; N];
        for slot in out.iter_mut().rev() {
            *slot = self.pop()?;
        }
        Ok(out)
    }

    fn pop_mark(&mut self) -> Res<Vec<Id>> {
        let mark = self.marks.pop().ok_or("the pickle lacks a mark")?;
        Ok(self.stack.split_off(mark))
    }

    fn remember(&mut self, slot: usize) -> Res<()> {
        let id = self.top()?;
        self.memo.insert(slot, id);
        Ok(())
    }

    fn recall(&mut self, slot: usize) -> Res<()> {
        let id = self.memo.get(&slot);
        let id = *id.ok_or("the pickle recalls what it did not remember")?;
        self.stack.push(id);
        Ok(())
    }

    fn append(&mut self, to: Id, items: Vec<Id>) -> Res<()> {
        match &mut self.nodes[to] {
            Node::List(v) | Node::Set(v) => {
                v.extend(items);
                Ok(())
            }
            Node::Foreign(object) => {
                object.parts.extend(items);
                Ok(())
            }
            _ => Err("the pickle appends to what is no list".into()),
        }
    }

    fn set_items(&mut self, to: Id, items: &[Id]) -> Res<()> {
        if items.len() % 2 == 1 {
            return Err("the pickle has a key without a value".into());
        }
        match &mut self.nodes[to] {
            Node::Dict(v) => {
                v.extend(items.chunks_exact(2).map(|kv| (kv[0], kv[1])));
                Ok(())
            }
            Node::Foreign(object) => {
                let pairs = items.chunks_exact(2).map(|kv| (kv[0], kv[1]));
                object.pairs.extend(pairs);
                Ok(())
            }
            _ => Err("the pickle puts a key into what is no dict".into()),
        }
    }

    fn str(&mut self, bytes: &[u8]) -> Res<()> {
        // Python writes lone surrogates in UTF-8's manner; no name of a tensor has one.
        let text = text(bytes)?.to_string();
        self.push(Node::Str(text));
        Ok(())
    }

    /// Python 2's `str`: a text where it is one.
    fn old_str(&mut self, bytes: &[u8]) {
        self.push(match std::str::from_utf8(bytes) {
            Ok(text) => Node::Str(text.to_string()),
            Err(_) => Node::Bytes(bytes.to_vec()),
        });
    }

    fn long(&mut self, bytes: &[u8]) {
        let big = BigInt::from_le_bytes(bytes);
        self.push(match i128::try_from(&big).map(i64::try_from) {
            Ok(Ok(i)) => Node::Int(i),
            _ => Node::Big(big),
        });
    }

    fn number(&mut self, line: &str) -> Res<()> {
        let line = line.strip_suffix('L').unwrap_or(line);
        let wide: i128 = line
            .parse()
            .map_err(|_| format!("the pickle has no whole number where it has {line:?}"))?;
        self.long(&wide.to_le_bytes());
        Ok(())
    }

    fn find(&self, module: &str, name: &str) -> Res<Node> {
        if self.records.iter().any(|m| m == module) {
            return Ok(Node::Global(Global::Record));
        }
        let found = match self.script {
            true => globals::find_in_script(module, name, self.keep_foreign),
            false => globals::find(module, name, self.keep_foreign),
        };
        match found {
            Ok(Global::DType(dtype)) => Ok(Node::DType(dtype)),
            Ok(other) => Ok(Node::Global(other)),
            Err(_) if self.keep_foreign => {
                let what = globals::unknown(module, name);
                let why = "its class is not known here, and none of its code is run";
                let mut object = ForeignNode::new(what, why);
                object.global = true;
                Ok(Node::Foreign(Box::new(object)))
            }
            Err(why) => Err(why),
        }
    }

    fn call(&mut self) -> Res<()> {
        let [function, arguments] = self.pop_n()?;
        let node = self.called(function, arguments)?;
        self.push(node);
        Ok(())
    }

    /// What a call gives, which is kept as data where there is no value for it.
    pub(super) fn called(&mut self, function: Id, arguments: Id) -> Res<Node> {
        if let Node::Foreign(class) = &self.nodes[function] {
            let object = ForeignNode {
                about: class.about.clone(),
                parts: vec![arguments],
                pairs: Vec::new(),
                state: None,
                global: false,
            };
            return Ok(Node::Foreign(Box::new(object)));
        }
        let made = reduce::call(self, function, arguments);
        self.or_foreign(made, &[arguments])
    }

    /// Keeps what cannot be made as data, where that is asked for.
    fn or_foreign(&self, made: Res<Node>, parts: &[Id]) -> Res<Node> {
        match made {
            Err(why) if self.keep_foreign => {
                let mut object = ForeignNode::new("an object", why.what);
                object.parts = parts.to_vec();
                Ok(Node::Foreign(Box::new(object)))
            }
            made => made,
        }
    }

    /// One opcode; false at the end.
    fn step(&mut self, input: &mut Input) -> Res<bool> {
        match input.byte()? {
            0x80 => {
                let protocol = input.byte()?;
                if protocol > 5 {
                    return Err(format!("pickle protocol {protocol} is not known").into());
                }
            }
            // FRAME: its length says nothing that the opcodes in it do not.
            0x95 => drop(input.take(8)?),
            b'.' => return Ok(false),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => {
                // Taking a mark away is allowed too.
                if self.marks.last() == Some(&self.stack.len()) {
                    self.marks.pop();
                } else {
                    self.pop()?;
                }
            }
            b'1' => drop(self.pop_mark()?),
            b'2' => {
                let id = self.top()?;
                self.stack.push(id);
            }

            b'N' => self.push(Node::None),
            0x88 => self.push(Node::Bool(true)),
            0x89 => self.push(Node::Bool(false)),
            b'I' => match input.line()? {
                "01" => self.push(Node::Bool(true)),
                "00" => self.push(Node::Bool(false)),
                line => self.number(line)?,
            },
            b'L' => {
                let line = input.line()?;
                self.number(line)?;
            }
            b'J' => {
                let v = i32::from_le_bytes(input.array()?);
                self.push(Node::Int(v.into()));
            }
            b'K' => {
                let v = input.byte()?;
                self.push(Node::Int(v.into()));
            }
            b'M' => {
                let v = u16::from_le_bytes(input.array()?);
                self.push(Node::Int(v.into()));
            }
            0x8a => {
                let n = input.byte()?;
                let bytes = input.take(n.into())?;
                self.long(bytes);
            }
            0x8b => {
                let n = input.u32()?;
                let bytes = input.take(n)?;
                self.long(bytes);
            }
            b'F' => {
                let line = input.line()?;
                let v = line.parse().map_err(|_| format!("{line:?} is no number"))?;
                self.push(Node::Float(v));
            }
            b'G' => {
                let v = f64::from_be_bytes(input.array()?);
                self.push(Node::Float(v));
            }

            b'S' => {
                let line = input.line()?;
                let quoted = line.as_bytes();
                match quoted {
                    [a @ (b'\'' | b'"'), inner @ .., b] if a == b && !inner.contains(&b'\\') => {
                        self.old_str(inner);
                    }
                    _ => return Err("the pickle has a text with escapes of Python 2".into()),
                }
            }
            b'T' => {
                let n = input.u32()?;
                let bytes = input.take(n)?;
                self.old_str(bytes);
            }
            b'U' => {
                let n = input.byte()?;
                let bytes = input.take(n.into())?;
                self.old_str(bytes);
            }
            b'V' => {
                let text = unescaped(input.raw_line()?)?;
                self.push(Node::Str(text));
            }
            b'X' => {
                let n = input.u32()?;
                let bytes = input.take(n)?;
                self.str(bytes)?;
            }
            0x8c => {
                let n = input.byte()?;
                let bytes = input.take(n.into())?;
                self.str(bytes)?;
            }
            0x8d => {
                let n = input.u64()?;
                let bytes = input.take(n)?;
                self.str(bytes)?;
            }
            b'B' => {
                let n = input.u32()?;
                let bytes = input.take(n)?;
                self.push(Node::Bytes(bytes.to_vec()));
            }
            b'C' => {
                let n = input.byte()?;
                let bytes = input.take(n.into())?;
                self.push(Node::Bytes(bytes.to_vec()));
            }
            // BINBYTES8, BYTEARRAY8
            0x8e | 0x96 => {
                let n = input.u64()?;
                let bytes = input.take(n)?;
                self.push(Node::Bytes(bytes.to_vec()));
            }

            b']' => self.push(Node::List(Vec::new())),
            b'l' => {
                let items = self.pop_mark()?;
                self.push(Node::List(items));
            }
            b'a' => {
                let item = self.pop()?;
                let to = self.top()?;
                self.append(to, vec![item])?;
            }
            // APPENDS, ADDITEMS
            b'e' | 0x90 => {
                let items = self.pop_mark()?;
                let to = self.top()?;
                self.append(to, items)?;
            }
            b')' => self.push(Node::Tuple(Vec::new())),
            b't' => {
                let items = self.pop_mark()?;
                self.push(Node::Tuple(items));
            }
            0x85 => {
                let items = self.pop_n::<1>()?;
                self.push(Node::Tuple(items.into()));
            }
            0x86 => {
                let items = self.pop_n::<2>()?;
                self.push(Node::Tuple(items.into()));
            }
            0x87 => {
                let items = self.pop_n::<3>()?;
                self.push(Node::Tuple(items.into()));
            }
            b'}' => self.push(Node::Dict(Vec::new())),
            b'd' => {
                let items = self.pop_mark()?;
                let to = self.node(Node::Dict(Vec::new()));
                self.set_items(to, &items)?;
                self.stack.push(to);
            }
            b's' => {
                let items = self.pop_n::<2>()?;
                let to = self.top()?;
                self.set_items(to, &items)?;
            }
            b'u' => {
                let items = self.pop_mark()?;
                let to = self.top()?;
                self.set_items(to, &items)?;
            }
            0x8f => self.push(Node::Set(Vec::new())),
            0x91 => {
                let items = self.pop_mark()?;
                self.push(Node::Set(items));
            }

            b'c' => {
                let module = input.line()?;
                let name = input.line()?;
                let found = self.find(module, name)?;
                self.push(found);
            }
            0x93 => {
                let [module, name] = self.pop_n()?;
                let (Node::Str(module), Node::Str(name)) = (&self.nodes[module], &self.nodes[name])
                else {
                    return Err("the pickle has a global whose name is no text".into());
                };
                let found = self.find(module, name)?;
                self.push(found);
            }
            // NEWOBJ_EX: arguments by name too, which no class that is allowed has.
            0x92 if self.keep_foreign => {
                let [class, arguments, named] = self.pop_n()?;
                let mut node = self.called(class, arguments)?;
                if let Node::Foreign(object) = &mut node {
                    object.parts.push(named);
                }
                self.push(node);
            }
            // REDUCE, NEWOBJ: the classes that are allowed are made by calling them.
            b'R' | 0x81 => self.call()?,
            b'b' => {
                let state = self.pop()?;
                let of = self.top()?;
                match reduce::set_state(self, of, state) {
                    Err(why) if self.keep_foreign => {
                        let mut object = ForeignNode::new("an object", why.what);
                        object.state = Some(state);
                        self.nodes[of] = Node::Foreign(Box::new(object));
                    }
                    set => set?,
                }
            }
            b'Q' => {
                let id = self.pop()?;
                let made = reduce::persistent(self, id);
                let node = self.or_foreign(made, &[id])?;
                self.push(node);
            }

            b'p' => {
                let line = input.line()?;
                let slot = line.parse().map_err(|_| format!("{line:?} is no number"))?;
                self.remember(slot)?;
            }
            b'q' => {
                let slot = input.byte()?;
                self.remember(slot.into())?;
            }
            b'r' => {
                let slot = input.u32()?;
                self.remember(slot)?;
            }
            0x94 => self.remember(self.memo.len())?,
            b'g' => {
                let line = input.line()?;
                let slot = line.parse().map_err(|_| format!("{line:?} is no number"))?;
                self.recall(slot)?;
            }
            b'h' => {
                let slot = input.byte()?;
                self.recall(slot.into())?;
            }
            b'j' => {
                let slot = input.u32()?;
                self.recall(slot)?;
            }
            other => {
                return Err(format!(
                    "refuses the pickle opcode 0x{other:02x}, which no file of tensors needs"
                )
                .into());
            }
        }
        Ok(true)
    }
}
