# SPDX-License-Identifier: BSD-3-Clause
"""A second implementation of the methods of sluice_recipe(7), in numpy, written only from the manual pages.

Each method is a class, and an object of it is a job. step(gradients, lr) takes the gradients of all workers in rank
order and changes x, the parameters that all workers hold. held(i) returns the parameters of worker i. Every operation
is in float32 and in the order of the pages, so that x can be compared with the library's parameters bit by bit.
"""
import copy
import math
import re
from functools import partial

import numpy as np

f32 = np.float32


def count(density, n):
    """Returns the number of coordinates of a density, rounded up."""
    return math.ceil(density * n)


def top(v, k):
    """Returns the indices of the k largest magnitudes, but no zeros. The lower index wins a tie."""
    order = np.argsort(-np.abs(v), kind="stable")[:k]
    return np.sort(order[v[order] != 0])


def chosen(rule, v, start=0):
    """Returns the indices that a selector takes. rule: the density of a top-k, or (K, N) of block-topk, which counts
    coordinates from the first of the vector; v begins at coordinate start."""
    if not isinstance(rule, tuple):
        return top(v, count(rule, len(v)))
    k, n = rule
    cuts = [0, *range(n - start % n, len(v), n), len(v)]
    return np.concatenate([a + top(v[a:b], -(-k * (b - a) // n)) for a, b in zip(cuts, cuts[1:])])


def only(v, support):
    out = np.zeros_like(v)
    out[support] = v[support]
    return out


def lanes(a):
    """Returns the sum of float32s, added in 32 lanes."""
    total = np.zeros(32, f32)
    for row in np.append(a, np.zeros(-len(a) % 32, f32)).reshape(-1, 32):
        total = total + row
    while len(total) > 1:
        total = total[:len(total) // 2] + total[len(total) // 2:]
    return total[0]


def bf16(x):
    """Returns x rounded to bfloat16: to nearest even, and at most to the largest finite number."""
    bits = int(f32(x).view(np.uint32))
    bits = bits + 0x7fff + (bits >> 16 & 1) >> 16
    return np.uint32(min(bits, 0x7f7f) << 16).view(f32)


def twomeans(v):
    """Encodes and decodes one block."""
    a, factor = np.abs(v), f32(1)
    with np.errstate(over="ignore"):
        if np.isinf(lanes(a)):
            factor = f32(2 ** -20)
    a = a * factor
    above = a > lanes(a) / f32(len(a))
    means = [bf16(lanes(np.where(side, a, f32(0))) / f32(side.sum()) / factor)
             for side in (~above, above) if side.any()]
    low, high = means[0], max(means)
    return np.copysign(np.where(above, high, low), v) if high else np.zeros_like(v)


def e3m0(v):
    """Encodes and decodes one block."""
    a = np.abs(v)
    fraction, exponent = np.frexp(a.max())
    if a.max() < f32(2.0 ** -126):
        return np.zeros_like(v)
    scale = np.float64(2) ** min(max(int(exponent) - (fraction < 0.75), -119), 127)
    levels = scale * np.array([0] + [2.0 ** e for e in range(-6, 1)])
    distances = np.abs(a.astype(np.float64)[:, None] - levels[::-1])  # the larger level wins a tie
    return np.copysign(levels[::-1][np.argmin(distances, axis=1)].astype(f32), v)


def uniform1(v):
    """Encodes and decodes one block of uniform(1)."""
    return np.copysign(f32(np.cumsum(np.abs(v).astype(np.float64))[-1] / len(v)), v)


def coded(code, v):
    """Returns what a receiver decodes from a message of these values."""
    return np.concatenate([code(v[at:at + 512]) for at in range(0, len(v), 512)] + [v[:0]])


def sum_of(messages):
    """Adds the messages in rank order."""
    total = messages[0].copy()
    for message in messages[1:]:
        total = total + message
    return total


def share_of(workers):
    """Returns the factor that makes a sum a mean: the float32 nearest to 1 / workers."""
    return f32(1) / f32(workers)


def mean_of(messages):
    return sum_of(messages) * share_of(len(messages))


def mean_of_senders(messages):
    """reduce=senders: divides the sum of each coordinate by the number of its values that are not zero."""
    senders = sum((message != 0).astype(f32) for message in messages)
    return sum_of(messages) * (f32(1) / np.maximum(senders, f32(1)))


def norm(v):
    """Returns the 2-norm of a vector. The squares are added in order, in double precision."""
    return f32(math.sqrt(np.cumsum(v.astype(np.float64) ** 2)[-1])) if len(v) else f32(0)


def clipped(messages, norms):
    """clip=median: scales each message down to the median norm, the lower one of an even number."""
    sizes = sorted(size for size in norms if size > 0)
    median = sizes[(len(sizes) - 1) // 2] if sizes else f32(0)
    return [message * (median / size) if size > median else message
            for message, size in zip(messages, norms)]


def cosine(j, length):
    """cos(pi j / (2 length)) by its series, because cosines differ between machines."""
    if j > 2 * length:
        j = 4 * length - j
    if j > length:
        return -cosine(2 * length - j, length)
    if j == length:
        return 0.0
    total, x = 1.0, math.pi * j / (2 * length)
    for i in range(13, 0, -1):
        total = 1 - x * x / (2 * i * (2 * i - 1)) * total
    return total


def dct_matrix(length):
    return np.array([[math.sqrt((2.0 if k else 1.0) / length) * cosine((2 * n + 1) * k % (4 * length), length)
                      for n in range(length)] for k in range(length)]).astype(f32)


def product(a, b):
    """The product of two matrices. The sums are added in order."""
    total = np.zeros((a.shape[0], b.shape[1]), f32)
    for j in range(a.shape[1]):
        total = total + a[:, j:j + 1] * b[j:j + 1, :]
    return total


def tensors_of(count):
    """The tensors of a model with a transform: their lengths, and those of their rows; 0: there is one row."""
    return {1: [(1, 0)], 2: [(2, 1)], 31: [(25, 5), (6, 0)],
            1009: [(720, 30), (128, 0), (155, 5), (6, 0)]}[count]


def transforms(recipe):
    return "transform=" in recipe or recipe.split()[0] == "demo"


class Blocks:
    """transform=dct(S). exempt: the tensors that dense= names."""

    def __init__(self, most, count, exempt=()):
        self.blocks, self.units, at = [], [], 0  # blocks: coefficients, and parameters as a matrix of places
        self.exempt, self.matrices = np.zeros(count, bool), {}
        for i, (length, columns) in enumerate(tensors_of(count)):
            columns = columns or length
            places = np.arange(at, at + length).reshape(-1, columns)
            high, wide = (1 if i in exempt else max(d for d in range(1, most + 1) if side % d == 0)
                          for side in places.shape)
            self.exempt[places] = i in exempt
            for r in range(0, len(places), high):
                begin = at
                for c in range(0, columns, wide):
                    self.blocks.append((slice(at, at + high * wide), places[r:r + high, c:c + wide]))
                    at += high * wide
                    if high == 1:
                        self.units.append(at - wide)
                if high > 1:
                    self.units.append(begin)
            for side in high, wide:
                self.matrices[side] = dct_matrix(side)
        self.units.append(count)

    def cuts(self, count, shards):
        cuts = [0]
        for i in range(1, shards):
            even = max(count * i // shards, cuts[-1])
            begin = max(unit for unit in self.units if unit <= even)
            cuts.append(begin if begin > cuts[-1] else min(unit for unit in self.units if unit > even))
        return cuts + [count]

    def both(self, left, block, right):
        block = block if len(block) == 1 else product(left, block)
        return block if block.shape[1] == 1 else product(block, right)

    def forward(self, v):
        out = np.empty_like(v)
        for to, places in self.blocks:
            high, wide = (self.matrices[side] for side in places.shape)
            out[to] = v[to] if places.size == 1 else self.both(high, v[places], wide.T).ravel()
        return out

    def inverse(self, v):
        out = np.empty_like(v)
        for of, places in self.blocks:
            high, wide = (self.matrices[side] for side in places.shape)
            out[places] = v[of].reshape(places.shape) if places.size == 1 else self.both(
                high.T, v[of].reshape(places.shape), wide)
        return out

    def chosen(self, rule, v):
        """The coefficients that a selector takes. Those of exempt tensors are all taken."""
        always = np.flatnonzero(self.exempt & (v != 0))
        of = np.flatnonzero(~self.exempt)
        if not isinstance(rule, tuple):
            return np.sort(np.append(always, of[top(v[of], count(rule, len(of)))]))
        parts = [part.start + top(v[part], min(rule[0], part.stop - part.start))
                 for part, places in self.blocks if not self.exempt[part.start]]
        return np.sort(np.concatenate([always, *parts]))


def shrunk(average, least=2.0**-100):
    """An average that has become too small is zero, instead of a denormal number later."""
    return np.where(np.abs(average) < f32(least), f32(0), average)


class Update:
    """An update rule. It computes the change of the parameters from the mean, and begins without state."""

    def __init__(self, kind="sgd", m=0.0):
        self.kind, self.m, self.v = kind, f32(m), None

    def direction(self, mean):
        if self.kind == "sgd":
            return mean
        if self.kind == "sign":
            return np.sign(mean)
        if self.v is None:
            self.v = np.zeros_like(mean)
        self.v = shrunk(self.m * self.v + mean)
        return self.v if self.kind == "momentum" else mean + self.m * self.v

    def change(self, mean, lr, x):
        """x is the parameters. lr is None if the messages include the learning rate."""
        direction = self.direction(mean)
        return direction if lr is None else lr * direction


def power(base, n):
    """Computes base ** n by squaring, in double precision, as the pages specify."""
    result, square = 1.0, float(base)
    while n:
        result = result * square if n & 1 else result
        square, n = square * square, n >> 1
    return result


class Adam:
    """update=adam or, with apart=True, adamw. decay is theirs or that of decay=."""

    def __init__(self, b1, b2, epsilon, decay=0, apart=False):
        self.b1, self.b2, self.epsilon, self.decay = f32(b1), f32(b2), f32(epsilon), f32(decay)
        self.apart, self.m, self.v, self.t = apart, f32(0), f32(0), 0

    def change(self, mean, lr, x):
        self.t += 1
        if self.decay and not self.apart:
            mean = mean + self.decay * x
        self.v = shrunk(self.b2 * self.v + (f32(1) - self.b2) * (mean * mean), 2.0**-126)
        self.m = shrunk(self.b1 * self.m + (f32(1) - self.b1) * mean) if self.b1 else mean
        rate = lr * f32(1 / (1 - power(self.b1, self.t)))
        unbias = f32(1 / math.sqrt(1 - power(self.b2, self.t)))
        change = rate * (self.m / (np.sqrt(self.v) * unbias + self.epsilon))
        return change + lr * self.decay * x if self.decay and self.apart else change


class Job:
    def __init__(self, x, workers, shards, blocks=None):
        self.x = x.copy()
        self.workers = workers
        self.t = 0
        self.blocks = blocks and Blocks(count=len(x), **blocks)
        cuts = (self.blocks.cuts(len(x), shards) if blocks else
                [len(x) * i // shards for i in range(shards + 1)])
        self.shards = [slice(a, b) for a, b in zip(cuts, cuts[1:])]

    def held(self, worker):
        return self.x


class Dense(Job):
    """up=all down=all"""

    def __init__(self, x, workers, shards, update="sgd", m=0.0):
        super().__init__(x, workers, shards)
        self.update = update() if callable(update) else Update(update, m)

    def step(self, gradients, lr):
        self.x = self.x - self.update.change(mean_of(gradients), lr, self.x)


class Sparse(Job):
    """Each worker has a residual and may have momentum. A shard that selects also has a residual."""

    def __init__(self, x, workers, shards, up, down=None, inside=True, update="sgd", m=0.0,
                 momentum=None, mask=True, up_code=None, senders=False, median=False, blocks=None,
                 fade=1.0, down_code=None):
        super().__init__(x, workers, shards, blocks)
        self.fade, self.down_code = f32(fade), down_code
        self.up, self.down, self.inside, self.up_code = up, down, inside, up_code
        self.senders, self.median = senders, median
        self.update = update() if callable(update) else Update(update, m)
        self.momentum, self.mask = None if momentum is None else f32(momentum), mask
        self.e = [np.zeros_like(x) for _ in range(workers)]
        self.u = [np.zeros_like(x) for _ in range(workers)]
        self.epsilon = np.zeros_like(x)

    def accumulate(self, gradients, lr):
        for i, g in enumerate(gradients):
            g = self.blocks.forward(g) if self.blocks else g
            signal = lr * g if self.inside else g
            if self.momentum is not None:
                self.u[i] = shrunk(self.momentum * self.u[i] + signal)
                signal = self.u[i]
            self.e[i] = (shrunk(self.e[i] * self.fade) if self.fade < 1 else self.e[i]) + signal

    def message(self, e, support, code, shards=None, start=0):
        """Returns what the receivers decode. Each shard gets a message of its own coordinates. e begins at
        coordinate start."""
        if code is None:
            return only(e, support)
        out = np.zeros_like(e)
        for shard in shards or self.shards:
            mine = support[(support >= shard.start - start) & (support < shard.stop - start)]
            out[mine] = coded(code, e[mine])
        return out

    def reduced(self, sent, norms):
        """norms: of the values that each worker selected, before they are encoded."""
        if self.median:
            sent = clipped(sent, norms)
        if self.blocks:
            mean = self.blocks.inverse(mean_of_senders(sent) if self.senders else sum_of(sent))
            return mean if self.senders else mean * share_of(len(sent))
        return mean_of_senders(sent) if self.senders else mean_of(sent)

    def take(self, i, support):
        """Returns what worker i sends at these coordinates, and subtracts it from the residual."""
        s = self.message(self.e[i], support, self.up_code)
        self.e[i] = self.e[i] - s
        if self.momentum is not None and self.mask:
            self.u[i][support] = 0
        return s

    def publish(self, mean, lr):
        after = not self.inside or self.update.kind == "sign"
        change = self.update.change(mean, lr if after else None, self.x)
        if self.down is None:
            self.x = self.x - change
            return
        self.epsilon = self.epsilon - change
        p = np.zeros_like(self.x)
        for shard in self.shards:
            e = self.epsilon[shard]
            support = chosen(self.down, e)
            p[shard][support] = coded(self.down_code, e[support]) if self.down_code else e[support]
        self.epsilon = self.epsilon - p
        self.x = self.x + p

    def supports(self):
        """Returns the coordinates that each worker sends."""
        if self.blocks:
            return [self.blocks.chosen(self.up, e) for e in self.e]
        return [chosen(self.up, e) for e in self.e]

    def step(self, gradients, lr):
        self.accumulate(gradients, lr)
        supports = self.supports()
        norms = [norm(e[s]) for e, s in zip(self.e, supports)]
        sent = [self.take(i, s) for i, s in enumerate(supports)]
        self.publish(self.reduced(sent, norms), lr)
        self.t += 1


class Coded(Sparse):
    """Values that are encoded in blocks of a message. up=all also sends zeros, and so does down=all with it."""

    def __init__(self, x, workers, shards, up, down, up_code, down_code, inside=True):
        super().__init__(x, workers, shards, up, down, inside, up_code=up_code)
        self.down_code = down_code

    def step(self, gradients, lr):
        self.accumulate(gradients, lr)
        sent = []
        for i, e in enumerate(self.e):
            support = np.arange(len(e)) if self.up == 1 else chosen(self.up, e)
            sent.append(self.message(e, support, self.up_code))
            self.e[i] = e - sent[i]
        change = mean_of(sent) if self.inside else lr * mean_of(sent)
        self.epsilon = self.epsilon - change
        for shard in self.shards:
            e = self.epsilon[shard]
            every = self.up == self.down == 1
            support = np.arange(len(e)) if every else chosen(self.down, e)
            p = np.zeros_like(e)
            p[support] = coded(self.down_code, e[support])
            self.epsilon[shard] = e - p
            self.x[shard] = self.x[shard] + p


class Drift(Sparse):
    """signal=drift when=every(H),fragments(P),late(T),mix(M): the program runs SGD and pushes its parameters. All fragments
    have the same number of shards. down_code: of values with down=all."""

    def __init__(self, x, workers, shards, every=1, fragments=1, late=0, mix=0.0, decay=1.0, keep=0.0,
                 rate=1.0, **rest):
        super().__init__(x, workers, shards, inside=False, **rest)
        self.late, self.mix = late, f32(mix)
        self.decay, self.keep, self.rate = f32(decay), f32(keep), f32(rate)
        self.distance = every // fragments
        self.own = [x.copy() for _ in range(workers)]
        of = shards // fragments
        self.fragments = [(self.shards[at:at + of], copy.copy(self.update))
                          for at in range(0, shards, of)]

    def held(self, worker):
        return self.own[worker]

    def point(self, i):
        return self.x - self.keep * self.e[i] if self.keep else self.x

    def drifted(self, a, shards):
        """Returns the message and the norm of its values."""
        start = shards[0].start
        every = self.up_code is not None and self.up == 1
        support = (np.arange(len(a)) if every else self.blocks.chosen(self.up, a) if self.blocks else
                   chosen(self.up, a, start))
        return self.message(a, support, self.up_code, shards, start), norm(a[support])

    def exchange(self, shards, update):
        part, sent, norms = slice(shards[0].start, shards[-1].stop), [], []
        for i, own in enumerate(self.own):
            drift = self.point(i) - own
            drift = self.blocks.forward(drift) if self.blocks else drift[part]
            faded = self.decay * self.e[i][part]
            a = (shrunk(faded) if self.decay < 1 else faded) + drift
            message, size = self.drifted(a, shards)
            sent.append(message)
            norms.append(size)
            self.e[i][part] = a - message
        change = update.change(self.reduced(sent, norms), self.rate, self.x[part])
        if self.down is None:
            self.x[part] = self.x[part] - change
        else:
            self.epsilon[part] = self.epsilon[part] - change
        for shard in shards if self.down else []:
            e = self.epsilon[shard]
            p = coded(self.down_code, e) if self.down_code else only(e, top(e, count(self.down, len(e))))
            self.epsilon[shard] = e - p
            self.x[shard] = self.x[shard] + p

    def apply(self, shards):
        part = slice(shards[0].start, shards[-1].stop)
        for i, own in enumerate(self.own):
            point = self.point(i)[part]
            own[part] = self.mix * own[part] + (f32(1) - self.mix) * point if self.mix else point

    def fragment(self, step):
        """The fragment of the exchange that is pushed in this step, if there is one."""
        if step > 0 and step % self.distance == 0:
            return self.fragments[(step // self.distance - 1) % len(self.fragments)]

    def step(self, gradients, lr):
        self.own = [own - lr * g for own, g in zip(self.own, gradients)]
        self.t += 1
        if pushed := self.fragment(self.t):
            self.exchange(*pushed)
        if pulled := self.fragment(self.t - self.late):
            self.apply(pulled[0])


class Threshold(Sparse):
    """up=threshold(lambda): sends at most a quarter of a shard, but up to 64 coordinates of a small one."""

    def to_shard(self, e):
        above = np.flatnonzero(np.abs(e) >= f32(self.up))
        most = max(len(e) // 4, min(len(e), 64))
        return above if len(above) <= most else top(e, most)

    def supports(self):
        return [np.concatenate([shard.start + self.to_shard(e[shard]) for shard in self.shards])
                for e in self.e]


class Cyclic(Sparse):
    """up=cyclic(density): all workers send the leader's top-k, or the leader's largest of each chunk."""

    def __init__(self, x, workers, shards, up, chunk=None, **rest):
        super().__init__(x, workers, shards, up, **rest)
        self.chunk = chunk

    def supports(self):
        leader = self.e[self.t % self.workers]
        if self.chunk is None:
            support = top(leader, count(self.up, len(leader)))
        else:
            support = np.concatenate([at + top(leader[at:at + self.chunk], 1)
                                      for at in range(0, len(leader), self.chunk)])
        return [support] * self.workers


class Lazy(Job):
    """signal=innovation when=lazy(window,weight): LAG. The workers decide whether to upload."""

    def __init__(self, x, workers, shards, window, weight, longest=None):
        super().__init__(x, workers, shards)
        self.window, self.weight, self.longest = window, weight, longest
        self.q = [np.zeros_like(x) for _ in range(workers)]
        self.total = np.zeros_like(x)
        self.changes = []  # |change of x|^2, with the newest at the end
        self.left_out = [0] * workers
        self.sent = self.skipped = 0

    def step(self, gradients, lr):
        uploads = []
        right = self.weight / float(lr) ** 2 * sum(self.changes[-self.window:])
        for i, g in enumerate(gradients):
            innovation = g - self.q[i]
            size = float(np.sum(innovation.astype(np.float64) ** 2))
            if size <= right and self.left_out[i] != self.longest:
                self.left_out[i] += 1
                self.skipped += 1
                continue
            self.left_out[i] = 0
            self.sent += 1
            self.q[i] = self.q[i] + innovation
            uploads.append(innovation)
        if uploads:
            self.total = self.total + sum_of(uploads)
        change = lr * (self.total * share_of(self.workers))
        self.x = self.x - change
        self.changes.append(float(np.sum(change.astype(np.float64) ** 2)))


def recipes():
    """Yields pairs of a recipe, which names the residual's placement, and a function that makes its job from
    (x, workers, shards). WORKERS in a recipe is the number of workers."""
    yield "up=all down=all memory=none", Dense
    for kind in "momentum", "nesterov":
        yield f"up=all down=all memory=none update={kind}(0.9)", partial(Dense, update=kind, m=0.9)
    for place in "inside", "outside":
        inside = place == "inside"
        memory = f"memory=residual({place})"
        sparse = partial(Sparse, up=0.1, inside=inside)
        yield f"up=topk(0.1) down=all {memory}", sparse
        yield f"up=topk(0.1) down=topk(0.15) {memory}", partial(sparse, down=0.15)
        yield f"up=all down=topk(0.15) {memory}", partial(sparse, up=1, down=0.15)
        for k, n in (1, 8), (5, 64), (64, 4096):
            yield (f"up=block-topk({k},{n}) down=all {memory}",
                   partial(Sparse, up=(k, n), inside=inside))
            yield (f"up=block-topk({k},{n}) down=block-topk(7,50) {memory}",
                   partial(Sparse, up=(k, n), down=(7, 50), inside=inside))
        yield (f"up=block-topk(9,64),twomeans down=block-topk(16,100),e3m0 {memory}",
               partial(Coded, up=(9, 64), down=(16, 100), up_code=twomeans, down_code=e3m0,
                       inside=inside))
        for level in 0.02, 0.3, 2.0:
            yield (f"up=threshold({level}) down=all {memory}",
                   partial(Threshold, up=level, inside=inside))
        yield f"up=cyclic(0.1) down=all {memory}", partial(Cyclic, up=0.1, inside=inside)
        yield (f"up=cyclic(0.1,chunks) down=all {memory}",
               partial(Cyclic, up=0.1, chunk=10, inside=inside))
        for up, down, codes in ((0.1, 0.15, (twomeans, twomeans)), (1, 1, (twomeans, e3m0)),
                                (0.7, 1, (e3m0, twomeans)), (1, 0.6, (e3m0, e3m0))):
            ways = ["all" if density == 1 else f"topk({density})" for density in (up, down)]
            yield (f"up={ways[0]},{codes[0].__name__} down={ways[1]},{codes[1].__name__} {memory}",
                   partial(Coded, up=up, down=down, up_code=codes[0], down_code=codes[1],
                           inside=inside))
        for mask in "mask", "nomask":
            yield (f"up=topk(0.1) down=topk(0.15) signal=momentum(0.9),{mask} {memory}",
                   partial(sparse, down=0.15, momentum=0.9, mask=mask == "mask"))
        for kind in "momentum", "nesterov":
            yield (f"up=topk(0.1) down=all {memory} update={kind}(0.9)",
                   partial(sparse, update=kind, m=0.9))
    for text, adam in (
            ("update=adam(0.9,0.99,1e-8)", partial(Adam, 0.9, 0.99, 1e-8)),
            ("update=adam(0,0.95,1e-4) decay=0.03", partial(Adam, 0, 0.95, 1e-4, 0.03)),
            ("update=adamw(0.2,0.99,1e-8,0.1)", partial(Adam, 0.2, 0.99, 1e-8, 0.1, True))):
        memory = "memory=residual(outside)"
        yield f"up=all down=all memory=none {text}", partial(Dense, update=adam)
        yield (f"up=topk(0.1) down=all {memory} {text}",
               partial(Sparse, up=0.1, inside=False, update=adam))
        yield (f"up=topk(0.1) down=topk(0.15) {memory} {text}",
               partial(Sparse, up=0.1, down=0.15, inside=False, update=adam))
        yield (f"up=cyclic(0.1) down=all {memory} {text}",
               partial(Cyclic, up=0.1, inside=False, update=adam))
    for memory, update, rest in (
            ("residual", "sgd", {}),
            ("residual(decay=0.95)", "sgd", {"decay": 0.95, "rate": 0.7}),
            ("residual(decay=0.9)", "nesterov(0.9)", {"decay": 0.9, "m": 0.9, "keep": 0.6}),
            ("residual", "momentum(0.9)", {"m": 0.9, "rate": 0.4, "keep": 1}),
            ("residual(outside,decay=0.5)", "sign", {"decay": 0.5, "rate": 0.01})):
        words = " ".join(f"{key}={rest[key]}" for key in ("rate", "keep") if key in rest)
        for every, down in (1, 0.15), (3, None), (5, 0.15):
            direction = "all" if down is None else f"topk({down})"
            yield (f"up=topk(0.1) down={direction} signal=drift memory={memory} update={update} "
                   f"when=every({every}) {words}",
                   partial(Drift, up=0.1, down=down, every=every, update=update.split("(")[0],
                           **rest))
    for memory, rest in (("residual(decay=0.95)", {"decay": 0.95}), ("residual", {"keep": 0.5})):
        words = f"keep={rest['keep']}" if "keep" in rest else ""
        for down in None, 0.15:
            direction = "all" if down is None else f"topk({down})"
            yield (f"up=block-topk(4,64),twomeans down={direction} signal=drift memory={memory} "
                   f"when=every(3) update=sgd rate=1 dense=none coding=small {words}",
                   partial(Drift, up=(4, 64), down=down, every=3, up_code=twomeans, **rest))
    yield ("up=all down=all signal=drift memory=none update=nesterov(0.9) when=every(4) rate=0.7",
           partial(Drift, up=1, every=4, update="nesterov", m=0.9, rate=0.7))
    yield "up=all down=all signal=drift memory=none", partial(Drift, up=1)
    yield ("up=all down=all signal=drift memory=none update=nesterov(0.9) "
           "when=every(4),fragments(2) rate=0.7",
           partial(Drift, up=1, every=4, fragments=2, update="nesterov", m=0.9, rate=0.7))
    yield ("up=topk(0.1) down=topk(0.15) signal=drift memory=residual(decay=0.9) "
           "update=momentum(0.9) when=every(6),fragments(3) rate=0.4 keep=0.6",
           partial(Drift, up=0.1, down=0.15, every=6, fragments=3, update="momentum", m=0.9,
                   decay=0.9, rate=0.4, keep=0.6))
    yield ("up=block-topk(9,50),twomeans down=topk(0.15) signal=drift memory=residual "
           "when=every(6),fragments(3) rate=0.4 keep=0.6",
           partial(Drift, up=(9, 50), down=0.15, up_code=twomeans, every=6, fragments=3, rate=0.4, keep=0.6))
    yield ("up=topk(0.1) down=all signal=drift memory=residual when=every(7),fragments(7)",
           partial(Drift, up=0.1, every=7, fragments=7))
    yield ("local4 signal=drift when=every(3)",
           partial(Drift, up=1, down=1, up_code=e3m0, down_code=e3m0, every=3))
    yield ("muloco signal=drift when=every(4)",
           partial(Drift, up=1, up_code=twomeans, every=4, update="nesterov", m=0.9, rate=0.7))
    for late, mix in (0, 0.5), (1, 0), (2, 0.3), (3, 0.5):
        options = (f",late({late})" if late else "") + (f",mix({mix})" if mix else "")
        yield (f"up=all down=all signal=drift memory=none update=nesterov(0.9) "
               f"when=every(4){options} rate=0.4",
               partial(Drift, up=1, every=4, late=late, mix=mix, update="nesterov", m=0.9,
                       rate=0.4))
    for late, mix in (0, 0.5), (1, 0), (1, 0.9), (2, 0.5):
        options = (f",late({late})" if late else "") + (f",mix({mix})" if mix else "")
        yield ("up=topk(0.1) down=topk(0.15) signal=drift memory=residual(decay=0.9) "
               f"update=sgd when=every(6),fragments(2){options} rate=0.7 keep=0.6",
               partial(Drift, up=0.1, down=0.15, every=6, fragments=2, late=late, mix=mix,
                       decay=0.9, rate=0.7, keep=0.6))
    # a quorum of all workers
    yield ("up=all down=all signal=drift memory=none update=nesterov(0.9) when=every(4) rate=0.7 quorum=WORKERS",
           partial(Drift, up=1, every=4, update="nesterov", m=0.9, rate=0.7))
    yield ("up=topk(0.1) down=topk(0.15) signal=drift memory=residual(decay=0.9) update=momentum(0.9) "
           "when=every(3) rate=0.4 keep=0.6 reduce=senders quorum=WORKERS",
           partial(Drift, up=0.1, down=0.15, every=3, update="momentum", m=0.9, decay=0.9, rate=0.4, keep=0.6,
                   senders=True))
    yield ("muloco signal=drift when=every(2) transform=dct(8) quorum=WORKERS grace=0",
           partial(Drift, up=1, up_code=twomeans, every=2, update="nesterov", m=0.9, rate=0.7, blocks={"most": 8}))
    demo = partial(Sparse, up=(32, 4096), update="sign", fade=0.999, senders=True, blocks={"most": 64})
    yield "demo", partial(demo, down=1, down_code=uniform1)
    yield "demo down=all", demo
    yield "demo memory=residual(outside,decay=0.9) down=topk(0.15)", partial(demo, inside=False, fade=0.9, down=0.15)
    for most, up, words, rest in (
            (64, "all", "", {}), (64, "topk(0.1)", "", {}), (8, "topk(0.1)", "reduce=senders", {"senders": True}),
            (5, "topk(0.3)", "clip=median", {"median": True}), (1, "topk(0.1)", "", {}),
            (64, "block-topk(7,4096)", "dense=t1,t3", {"blocks": {"most": 64, "exempt": (1, 3)}}),
            (16, "block-topk(40,256),twomeans", "dense=none update=nesterov(0.9)",
             {"update": "nesterov", "m": 0.9, "up_code": twomeans}),
            (7, "topk(0.2)", "update=adam(0.9,0.99,1e-8)", {"update": partial(Adam, 0.9, 0.99, 1e-8)}),
            (64, "topk(0.2)", "signal=momentum(0.9),mask", {"momentum": 0.9})):
        numbers = re.findall(r"[\d.]+", up)
        rule = 1 if up == "all" else float(numbers[0]) if len(numbers) == 1 else tuple(map(int, numbers))
        rest.setdefault("blocks", {"most": most})
        for down in (None,) if "dense=t" in words else (None, 0.15):  # both ways send exempt tensors
            yield (f"up={up} down={'all' if down is None else 'topk(0.15)'} memory=residual(outside) "
                   f"transform=dct({most}) {words}", partial(Sparse, up=rule, down=down, inside=False, **rest))
    yield ("up=block-topk(9,64),twomeans down=topk(0.15) signal=drift memory=residual(decay=0.9) when=every(3) "
           "update=momentum(0.9) rate=0.7 transform=dct(8) clip=median reduce=senders dense=none",
           partial(Drift, up=(9, 64), down=0.15, every=3, up_code=twomeans, decay=0.9, update="momentum", m=0.9,
                   rate=0.7, blocks={"most": 8}, senders=True, median=True))
    for words, rest in (("reduce=senders", {"senders": True}), ("clip=median", {"median": True}),
                        ("reduce=senders clip=median", {"senders": True, "median": True})):
        for up, down in ("topk(0.1)", "all"), ("topk(0.6)", "topk(0.15)"), ("block-topk(4,64)", "all"):
            numbers = re.findall(r"[\d.]+", up)
            rule = float(numbers[0]) if len(numbers) == 1 else tuple(map(int, numbers))
            for update in "sgd", "nesterov(0.9)":
                yield (f"up={up} down={down} memory=residual(outside) update={update} {words}",
                       partial(Sparse, up=rule, down=None if down == "all" else 0.15, inside=False,
                               update=update.split("(")[0], m=0.9, **rest))
        yield (f"up=all down=all memory=residual(inside) {words}", partial(Sparse, up=1, **rest))
        yield (f"up=block-topk(4,64),twomeans down=all signal=drift memory=residual(decay=0.95) "
               f"when=every(3) update=sgd rate=1 dense=none coding=small {words}",
               partial(Drift, up=(4, 64), every=3, up_code=twomeans, decay=0.95, **rest))
        yield ("up=topk(0.1) down=topk(0.15) signal=drift memory=residual update=momentum(0.9) "
               f"when=every(6),fragments(3) rate=0.4 keep=0.6 {words}",
               partial(Drift, up=0.1, down=0.15, every=6, fragments=3, update="momentum", m=0.9, rate=0.4,
                       keep=0.6, **rest))
    for longest in None, 2:
        arguments = "5,0.2" if longest is None else f"5,0.2,{longest}"
        yield (f"up=all down=all signal=innovation memory=none when=lazy({arguments})",
               partial(Lazy, window=5, weight=0.2, longest=longest))
