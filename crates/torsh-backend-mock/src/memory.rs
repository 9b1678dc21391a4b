//! The memory behind the addresses.

use std::collections::HashMap;
use std::ptr::NonNull;

use torsh_core::alloc::MemoryStats;
use torsh_core::{Device, Result, TorshError};

/// How much memory a device has.
pub const TOTAL: usize = 4 << 30;

/// The bits of an address: a mark that makes it not canonical, the device, the block, the byte.
const MARK: usize = 0x5A << 56;
const DEVICE_BIT: u32 = 52;
const BLOCK_BIT: u32 = 28;
const BLOCKS: u64 = 1 << (DEVICE_BIT - BLOCK_BIT);
const LARGEST: usize = 1 << BLOCK_BIT;

/// What new memory holds: nobody may rely on zeros. (Bytes that are valid for every dtype.)
const UNWRITTEN: u8 = 1;

const ALIGN: usize = 64;

/// A block: an aligned part of a vector.
struct Block {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
    /// Whether there is memory: it may have been given back while the address stays.
    there: bool,
}

impl Block {
    fn new(len: usize) -> Block {
        let mut block = Block {
            bytes: Vec::new(),
            start: 0,
            len,
            there: false,
        };
        block.fill();
        block
    }

    /// Brings memory.
    fn fill(&mut self) {
        self.bytes = vec![UNWRITTEN; self.len + ALIGN];
        self.start = self.bytes.as_ptr().align_offset(ALIGN);
        self.there = true;
    }

    /// The first byte. No slice of the bytes is made: other queues' threads may be at work on them.
    fn ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().wrapping_add(self.start)
    }
}

/// All blocks of a device.
pub struct Memory {
    device: usize,
    blocks: HashMap<u64, Block>,
    next: u64,
    used: usize,
    peak: usize,
    made: u64,
}

impl Memory {
    pub fn new(device: usize) -> Memory {
        Memory {
            device,
            blocks: HashMap::new(),
            next: 0,
            used: 0,
            peak: 0,
            made: 0,
        }
    }

    /// A new block: its number and its address.
    pub fn allocate(&mut self, bytes: usize) -> Result<(u64, NonNull<u8>)> {
        if bytes >= LARGEST || !self.has_room(bytes) || self.blocks.len() as u64 >= BLOCKS / 2 {
            return Err(TorshError::out_of_memory(
                Device::Custom(self.device),
                bytes,
            ));
        }
        // Numbers are used again as late as can be, so that a stale address finds nothing.
        while self.blocks.contains_key(&self.next) {
            self.next = (self.next + 1) % BLOCKS;
        }
        let id = self.next;
        self.next = (id + 1) % BLOCKS;
        self.blocks.insert(id, Block::new(bytes));
        self.used += bytes;
        self.peak = self.peak.max(self.used);
        self.made += 1;
        let at = MARK | self.device << DEVICE_BIT | (id as usize) << BLOCK_BIT;
        match crate::address(at) {
            Some(ptr) => Ok((id, ptr)),
            None => Err(TorshError::out_of_memory(
                Device::Custom(self.device),
                bytes,
            )),
        }
    }

    pub fn free(&mut self, id: u64) {
        if let Some(block) = self.blocks.remove(&id).filter(|b| b.there) {
            self.used -= block.len;
        }
    }

    /// Gives the memory of a block back; its address stays.
    pub fn release(&mut self, id: u64) {
        if let Some(block) = self.blocks.get_mut(&id).filter(|b| b.there) {
            block.bytes = Vec::new();
            block.there = false;
            self.used -= block.len;
        }
    }

    /// Whether there is room for as many bytes more.
    pub fn has_room(&self, bytes: usize) -> bool {
        bytes <= TOTAL.saturating_sub(self.used)
    }

    /// Brings memory for a block that was released.
    pub fn restore(&mut self, id: u64) {
        if let Some(block) = self.blocks.get_mut(&id).filter(|b| !b.there) {
            block.fill();
            self.used += block.len;
            self.peak = self.peak.max(self.used);
            self.made += 1;
        }
    }

    /// The host memory of the bytes from `low` to `high`, relative to an address, as a pointer to the
    /// address itself.
    pub fn host(&mut self, at: usize, low: isize, high: isize) -> Result<*mut u8> {
        let stray = |why: &str| {
            Err(TorshError::invalid(
                "",
                format!("{}: {at:#x} {why}", crate::NAME),
            ))
        };
        if at & (0xFF << 56) != MARK || (at >> DEVICE_BIT) & 0xF != self.device {
            return stray("is no address of this device");
        }
        let id = (at >> BLOCK_BIT) as u64 % BLOCKS;
        let Some(block) = self.blocks.get_mut(&id) else {
            return stray("is in memory that was freed");
        };
        if !block.there {
            return stray("is in memory that was given back");
        }
        let offset = at % LARGEST;
        let begins = offset as isize + low;
        let ends = offset as isize + high;
        if begins < 0 || ends > block.len as isize {
            return stray("reaches outside of its block");
        }
        Ok(block.ptr().wrapping_add(offset))
    }

    pub fn stats(&self) -> MemoryStats {
        MemoryStats {
            allocated_bytes: self.used,
            peak_allocated_bytes: self.peak,
            allocations: self.made,
            system_allocations: self.made,
            ..MemoryStats::default()
        }
    }
}
