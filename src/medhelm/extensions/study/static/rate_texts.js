/* The texts of a case: find in the material, and mark passages of the text to rate. */
(function () {
  'use strict';
  var form = document.getElementById('rating');
  if (!form) { return; }
  var byId = function (id) { return document.getElementById(id); };
  var all = function (selector, inside) { return Array.prototype.slice.call((inside || document).querySelectorAll(selector)); };
  var changed = function () { form.dispatchEvent(new Event('change')); };
  var made = function (tag, text, className) {
    var one = document.createElement(tag);
    if (text) { one.textContent = text; }
    if (className) { one.className = className; }
    return one;
  };

  /* --- texts: positions, marked passages, hits --- */

  function contentOf(box) { return box.source === undefined ? (box.source = box.textContent) : box.source; }

  function paint(box, spans) { /* spans: {start, end, kind}, in UTF-16 units; the text stays the same */
    var text = contentOf(box), cuts = [0, text.length], last = 0;
    spans.forEach(function (span) { cuts.push(span.start, span.end); });
    cuts = Array.from(new Set(cuts)).sort(function (a, b) { return a - b; });
    box.replaceChildren();
    cuts.forEach(function (cut) {
      var kinds = spans.filter(function (span) { return span.start <= last && span.end >= cut; });
      var piece = text.slice(last, cut);
      if (piece) { box.append(kinds.length ? made('mark', piece, kinds.map(function (span) { return span.kind; }).join(' ')) : piece); }
      if (spans.some(function (span) { return span.start === cut && span.end === cut; })) { box.append(made('span', '', 'gap')); }
      last = cut;
    });
  }

  function placeAt(box, offset) { /* the text node and the place in it for an offset */
    var walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT), node, found = [box, 0];
    while ((node = walker.nextNode())) {
      found = [node, Math.min(offset, node.length)];
      if (offset <= node.length) { break; }
      offset -= node.length;
    }
    return found;
  }

  function rangeOf(box, start, end) {
    var range = document.createRange(), from = placeAt(box, start), to = placeAt(box, end);
    range.setStart(from[0], from[1]);
    range.setEnd(to[0], to[1]);
    return range;
  }

  function offsetOf(box, node, offset) {
    var range = document.createRange();
    range.selectNodeContents(box);
    range.setEnd(node, offset);
    return range.toString().length;
  }

  function reveal(range) {
    var box = range.startContainer.parentElement, place = range.getBoundingClientRect(), frame;
    while (box && box !== document.documentElement) {
      if (box.scrollHeight > box.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(box).overflowY)) {
        frame = box.getBoundingClientRect();
        if (place.top < frame.top || place.bottom > frame.bottom) { box.scrollTop += place.top - frame.top - box.clientHeight / 3; }
        place = range.getBoundingClientRect();
      }
      box = box.parentElement;
    }
    if (place.top < 0 || place.bottom > innerHeight - 100) { scrollBy(0, place.top - innerHeight / 3); }
  }

  /* --- find in the material --- */

  var findForm = byId('find-form'), hits = [], current = -1, sought = '';
  function find() {
    var needle = byId('find').value.trim();
    if (needle !== sought) {
      sought = needle;
      hits = [];
      current = -1;
      var pattern = needle && new RegExp(needle.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/\s+/g, '\\s+'), 'gi');
      all('[data-find]').forEach(function (box) {
        var own = !needle ? [] : Array.from(contentOf(box).matchAll(pattern), function (one) {
          return {box: box, start: one.index, end: one.index + one[0].length, kind: 'hit'};
        });
        hits = hits.concat(own);
        paint(box, own);
      });
    }
    if (hits.length) {
      current = (current + 1) % hits.length;
      all('mark.now').forEach(function (one) { one.classList.remove('now'); });
      all('mark.hit')[current].classList.add('now');
      var folded = hits[current].box.closest('details');
      if (folded) { folded.open = true; }
      reveal(rangeOf(hits[current].box, hits[current].start, hits[current].end));
    }
    byId('found').textContent = !needle ? '' : hits.length ? (current + 1) + ' of ' + hits.length : 'Not found';
  }
  if (findForm) {
    findForm.hidden = false;
    findForm.addEventListener('submit', function (event) { event.preventDefault(); find(); });
    byId('find').addEventListener('input', function () { sought = null; find(); });
  }

  /* --- marked passages --- */

  var boxes = all('[data-side]'), marks = byId('marks'), bar = byId('mark-bar'), chosen = null;
  var names = {}, sides = boxes.length > 1 ? [' (left)', ' (right)'] : [''];
  all('[data-mark]').forEach(function (button) { names[button.dataset.mark] = button.textContent; });
  byId('mark-hint').hidden = false;
  byId('typed').hidden = true;

  function points(text, units) { return Array.from(text.slice(0, units)).length; }
  function units(text, count) { return Array.from(text).slice(0, count).join('').length; }
  function short(text) { return text.length > 90 ? text.slice(0, 60) + ' … ' + text.slice(-25) : text; }

  function spansOf(side) {
    var text = contentOf(boxes[side]);
    return all('input', marks).map(function (input) { return input.value.split('-'); })
      .filter(function (parts) { return Number(parts[3]) === side; })
      .map(function (parts) { return {start: units(text, Number(parts[0])), end: units(text, Number(parts[1])), kind: parts[2]}; });
  }

  function addMark(value) {
    var parts = value.split('-'), side = Number(parts[3]), text = contentOf(boxes[side]);
    var start = units(text, Number(parts[0])), end = units(text, Number(parts[1])), isPlace = start === end;
    var passage = isPlace ? text.slice(Math.max(0, start - 60), start) : text.slice(start, end);
    var item = made('li'), input = made('input'), words = made('span'), button = made('button', 'Remove', 'plain');
    input.type = 'hidden';
    input.name = 'mark';
    input.value = value;
    words.append(made('strong', names[parts[2]]), sides[side] + (isPlace ? ' after' : '') + ': ', made('q', short(passage)));
    words.lastChild.dir = 'auto';
    button.type = 'button';
    button.setAttribute('aria-label', 'Remove the mark ' + names[parts[2]] + ': ' + short(passage));
    item.append(input, words, button);
    marks.append(item);
  }

  function showMarks(values) {
    marks.replaceChildren();
    values.forEach(addMark);
    boxes.forEach(function (box, side) { paint(box, spansOf(side)); });
  }

  marks.addEventListener('click', function (event) {
    var button = event.target.closest('button'), item = button && button.closest('li');
    if (!item) { return; }
    event.preventDefault();
    var other = item.nextElementSibling || item.previousElementSibling;
    item.remove();
    boxes.forEach(function (box, side) { paint(box, spansOf(side)); });
    (other ? other.querySelector('button') : boxes[0]).focus();
    changed();
  });

  function choose(box, start, end) {
    var text = contentOf(box);
    while (start < end && /\s/.test(text[start])) { start += 1; }
    while (end > start && /\s/.test(text[end - 1])) { end -= 1; }
    chosen = start < end ? {box: box, start: start, end: end} : null;
    bar.hidden = !chosen;
    byId('selected').textContent = chosen ? 'Mark “' + short(text.slice(start, end)) + '” as' : '';
  }

  document.addEventListener('selectionchange', function () {
    var selection = getSelection(), range = selection.rangeCount ? selection.getRangeAt(0) : null;
    var box = range && !range.collapsed && boxes.find(function (one) { return one.contains(range.startContainer) && one.contains(range.endContainer); });
    if (box) { choose(box, offsetOf(box, range.startContainer, range.startOffset), offsetOf(box, range.endContainer, range.endOffset)); }
  });
  document.addEventListener('pointerdown', function (event) {
    if (bar.contains(event.target)) { event.preventDefault(); /* the selection stays */ } else { choose(boxes[0], 0, 0); }
  });

  bar.addEventListener('click', function (event) {
    var kind = event.target.dataset.mark, box = chosen && chosen.box;
    if (kind === undefined || !chosen) { return; }
    if (kind) {
      var text = contentOf(box), end = points(text, chosen.end);
      var start = kind === 'omission' ? end : points(text, chosen.start);
      var value = [start, end, kind, box.dataset.side].join('-');
      if (!all('input', marks).some(function (input) { return input.value === value; })) { addMark(value); }
      paint(box, spansOf(Number(box.dataset.side)));
      changed();
    }
    getSelection().removeAllRanges();
    choose(box, 0, 0);
    box.focus({preventScroll: true});
  });
  bar.addEventListener('keydown', function (event) {
    if (event.key === 'Escape') { bar.querySelector('[data-mark=""]').click(); }
  });

  boxes.forEach(function (box) { /* words by the keyboard: arrows select, Shift extends, Enter goes to the buttons */
    var first = -1, last = -1;
    box.addEventListener('keydown', function (event) {
      var steps = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: event.shiftKey ? 8 : 0, ArrowUp: event.shiftKey ? -8 : 0}[event.key];
      if (event.ctrlKey || event.altKey || event.metaKey) { return; }
      if (event.key === 'Enter' && chosen) {
        event.preventDefault();
        bar.querySelector('button').focus();
      }
      if (!steps) { return; }
      event.preventDefault();
      var words = Array.from(contentOf(box).matchAll(/\S+/g), function (one) { return [one.index, one.index + one[0].length]; });
      if (!words.length) { return; }
      last = first < 0 ? 0 : Math.max(0, Math.min(words.length - 1, last + steps));
      if (!event.shiftKey || first < 0) { first = last; }
      var range = rangeOf(box, words[Math.min(first, last)][0], words[Math.max(first, last)][1]);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      reveal(rangeOf(box, words[last][0], words[last][1]));
    });
  });

  form.addEventListener('marks', function (event) { showMarks(event.detail); });
  showMarks(all('input', marks).map(function (input) { return input.value; }));
}());
