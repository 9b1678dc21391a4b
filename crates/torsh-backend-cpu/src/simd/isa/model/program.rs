//! Assembly as `tile_asm!` has it, for the model: the text that the processor gets is the text that is tested.

use super::unit::{self, Unit};

/// Instructions, with registers by their index among the operands.
pub(crate) struct Program {
    code: Vec<Instruction>,
}

/// Memory: a base, the register with the bytes from a row to the next, and an offset.
#[derive(Clone, Copy, Debug)]
struct Place {
    base: usize,
    stride: Option<usize>,
    offset: usize,
}

#[derive(Clone, Copy, Debug)]
enum Instruction {
    Configure(Place),
    Release,
    Zero(usize),
    Load(usize, Place),
    Store(Place, usize),
    Multiply([usize; 3]),
    Prefetch,
    Add(usize, usize),
    AddRegister(usize, usize),
    Decrement(usize),
    /// `jnz` to an instruction.
    Repeat(usize),
}

impl Program {
    /// Reads lines of assembly, whose operands have these names.
    pub(crate) fn new(texts: &[&str], names: &[&str]) -> Program {
        let mut code = Vec::new();
        let mut start = None;
        for line in texts.iter().flat_map(|text| text.lines()) {
            let line = line.trim();
            match line {
                "" => {}
                "2:" => start = Some(code.len()),
                "jnz 2b" => {
                    let decrement = matches!(code.last(), Some(Instruction::Decrement(_)));
                    assert!(decrement, "the model repeats after `dec` alone");
                    code.push(Instruction::Repeat(start.expect("a label")));
                }
                _ => code.push(Instruction::read(line, names)),
            }
        }
        Program { code }
    }

    /// Executes the instructions on this thread's unit.
    ///
    /// # Safety
    /// The operands must be what the instructions need.
    pub(crate) unsafe fn run(&self, registers: &mut [usize]) {
        // SAFETY: the caller's promise.
        unit::with(|unit| unsafe { self.run_on(unit, registers) });
    }

    /// # Safety
    /// As [`Program::run`].
    unsafe fn run_on(&self, unit: &mut Unit, registers: &mut [usize]) {
        let mut next = 0;
        // Whether the last result was 0.
        let mut zero = false;
        while let Some(&instruction) = self.code.get(next) {
            next += 1;
            let at = |p: Place| {
                let at = registers[p.base].wrapping_add(p.offset);
                (at, p.stride.map_or(0, |stride| registers[stride]))
            };
            // SAFETY: the caller's promise.
            unsafe {
                match instruction {
                    Instruction::Configure(p) => unit.configure(at(p).0 as *const u8),
                    Instruction::Release => unit.release(),
                    Instruction::Zero(tile) => unit.zero(tile),
                    Instruction::Load(tile, p) => {
                        let (from, stride) = at(p);
                        unit.load(tile, from as *const u8, stride);
                    }
                    Instruction::Store(p, tile) => {
                        let (to, stride) = at(p);
                        unit.store(tile, to as *mut u8, stride);
                    }
                    Instruction::Multiply([to, a, b]) => unit.multiply(to, a, b),
                    Instruction::Prefetch => {}
                    Instruction::Add(register, value) => {
                        registers[register] = registers[register].wrapping_add(value);
                    }
                    Instruction::AddRegister(register, by) => {
                        registers[register] = registers[register].wrapping_add(registers[by]);
                    }
                    Instruction::Decrement(register) => {
                        registers[register] = registers[register].wrapping_sub(1);
                        zero = registers[register] == 0;
                    }
                    Instruction::Repeat(start) => {
                        if !zero {
                            next = start;
                        }
                    }
                }
            }
        }
    }
}

impl Instruction {
    fn read(line: &str, names: &[&str]) -> Instruction {
        let (name, operands) = line.split_once(' ').unwrap_or((line, ""));
        let operands: Vec<&str> = operands.split(',').map(str::trim).collect();
        let register = |text: &str| {
            let name = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'));
            let index = names.iter().position(|n| Some(*n) == name);
            index.unwrap_or_else(|| panic!("no operand {text}: {line}"))
        };
        let number = |text: &str| -> usize {
            let number = text.parse();
            number.unwrap_or_else(|_| panic!("no number {text}: {line}"))
        };
        let tile = |text: &str| match text.strip_prefix("tmm").map(number) {
            Some(tile @ 0..8) => tile,
            _ => panic!("no tile {text}: {line}"),
        };
        let place = |text: &str| {
            let inside = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
            let inside = inside.unwrap_or_else(|| panic!("no memory {text}: {line}"));
            let mut parts = inside.split(" + ").peekable();
            let base = register(parts.next().unwrap_or_default());
            let stride = parts.next_if(|p| p.starts_with('{')).map(register);
            let offset = parts.map(number).sum();
            Place {
                base,
                stride,
                offset,
            }
        };
        match (name, &operands[..]) {
            ("ldtilecfg", [from]) => Instruction::Configure(place(from)),
            ("tilerelease", [""]) => Instruction::Release,
            ("tilezero", [t]) => Instruction::Zero(tile(t)),
            ("tileloadd" | "tileloaddt1", [t, from]) => Instruction::Load(tile(t), place(from)),
            ("tilestored", [to, t]) => Instruction::Store(place(to), tile(t)),
            ("tdpbf16ps", [to, a, b]) => Instruction::Multiply([to, a, b].map(|t| tile(t))),
            ("prefetcht1", [_]) => Instruction::Prefetch,
            ("add", [to, by]) => match by.starts_with('{') {
                true => Instruction::AddRegister(register(to), register(by)),
                false => Instruction::Add(register(to), number(by)),
            },
            ("dec", [r]) => Instruction::Decrement(register(r)),
            _ => panic!("the model does not know: {line}"),
        }
    }
}
