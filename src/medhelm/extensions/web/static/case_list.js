/* Searches, filters and sorts the list of cases of the static site; its state is in the address. The server does the
   same with every request. Without this script, the pages of the file list all cases. */
(function () {
  'use strict';

  var form = document.querySelector('[data-case-search]');
  var table = document.querySelector('table.case-list');
  var parts = window.medhelmCases;
  if (!form || !table || !parts || !parts.length) { return; }

  var info = parts[0][1];
  var cases = [];
  parts.forEach(function (part) {
    part[1].cases.forEach(function (one) {
      one.href = new URL(one.url, part[0]).href;
      one.at = cases.length;
      one.words = (one.id + '\n' + one.text).toLowerCase();
      cases.push(one);
    });
  });
  var HALF = 0.5;
  var LEAST_LEAD = 0.5e-12;
  var PAGE = 50;
  var names = ['text', 'show', 'model', 'sort', 'failure', 'group', 'criterion', 'answer', 'key', 'got', 'missed', 'better', 'than', 'low', 'high', 'with_baselines'];

  // --- state: the query of the address ---

  function read() {
    var query = new URLSearchParams(location.search);
    var state = { page: Math.max(1, parseInt(query.get('page'), 10) || 1) };
    names.forEach(function (name) { state[name] = query.get(name) || ''; });
    return state;
  }

  function addressOf(state) {
    var query = new URLSearchParams();
    names.forEach(function (name) { if (state[name]) { query.set(name, state[name]); } });
    if (state.page > 1) { query.set('page', state.page); }
    var text = query.toString();
    return location.pathname.split('/').pop() + (text ? '?' + text : '');
  }

  // --- conditions, as on the server ---

  function some(list, test) { return list.some(test); }

  function place(name) { return info.models.indexOf(name); }

  function counted(state) {
    var named = [state.model, state.got, state.missed, state.better, state.than];
    var found = info.models.map(function (_, i) { return i; });
    var chosen = found.filter(function (i) { return !info.baselines[i] || named.indexOf(info.models[i]) >= 0; });
    return state.with_baselines || !some(info.baselines, function (is) { return !is; }) ? found : chosen;
  }

  function isRight(one, i) { return one.shares[i] !== null && one.shares[i] >= HALF; }
  function isWrong(one, i) { return one.shares[i] !== null && one.shares[i] < HALF; }

  function completionMeets(one, i, state) {
    var show = state.show === 'truncated' ? 'cut' : state.show;
    var low = state.low === '' ? null : Number(state.low);
    var high = state.high === '' ? null : Number(state.high);
    if (!one.has[i] || (state.model && place(state.model) !== i)) { return false; }
    if ((show === 'wrong' || show === 'only_wrong') && !isWrong(one, i)) { return false; }
    if (show === 'right' && !isRight(one, i)) { return false; }
    if (['refused', 'unreadable', 'blank', 'cut', 'failed', 'unscored', 'injection'].indexOf(show) >= 0 && one.flags[i].indexOf(show) < 0) { return false; }
    if (show === 'criterion' && !one.low[i].length) { return false; }
    if (state.criterion && one.low[i].indexOf(state.criterion) < 0) { return false; }
    if (state.failure && one.failures[i] !== state.failure) { return false; }
    if (state.answer && one.answers[i] !== state.answer) { return false; }
    if (low !== null && !(one.scores[i] !== null && one.scores[i] >= low)) { return false; }
    return high === null || (one.scores[i] !== null && one.scores[i] <= high);
  }

  function ofTwo(show) { return show === 'changed' || show === 'other_answer'; }

  function changed(one, a, b, show) {
    if (a < 0 || b < 0 || !one.has[a] || !one.has[b]) { return false; }
    var scored = one.shares[a] !== null && one.shares[b] !== null;
    var flipped = scored && isRight(one, a) !== isRight(one, b);
    var otherAnswer = one.answers[a] !== null && one.answers[b] !== null && one.answers[a] !== one.answers[b];
    return show === 'changed' ? flipped || otherAnswer : scored && !flipped && otherAnswer;
  }

  function isBetter(one, a, b) {
    return one.shares[a] !== null && one.shares[b] !== null && one.shares[a] - one.shares[b] > LEAST_LEAD;
  }

  function caseMeets(one, state, models) {
    var right = models.filter(function (i) { return isRight(one, i); }).length;
    var wrong = models.filter(function (i) { return isWrong(one, i); }).length;
    var strong = models.filter(function (i) { return info.strong[i] && one.shares[i] !== null; });
    if (state.text && one.words.indexOf(state.text.toLowerCase()) < 0) { return false; }
    if (state.group && one.group !== state.group) { return false; }
    if (state.key && one.correct.indexOf(state.key) < 0) { return false; }
    if (state.better && !isBetter(one, place(state.better), place(state.than))) { return false; }
    if (ofTwo(state.show)) { return changed(one, place(state.got), place(state.missed), state.show); }
    if (state.got && !isRight(one, place(state.got))) { return false; }
    if (state.missed && !isWrong(one, place(state.missed))) { return false; }
    switch (state.show) {
      case 'different': return right > 0 && wrong > 0;
      case 'all_wrong': return strong.length > 0 && !some(strong, function (i) { return isRight(one, i); });
      case 'only_wrong': return wrong === 1 && right > 0;
      case 'split': return right > 0 && wrong > 0 && 3 * right >= right + wrong && 3 * wrong >= right + wrong;
      case 'judges': return judgeSpread(one, state, models) >= HALF;
      default: return true;
    }
  }

  function judgeSpread(one, state, models) {
    var chosen = state.model ? [place(state.model)] : models;
    return chosen.reduce(function (most, i) { return Math.max(most, one.spread[i] === null ? -1 : one.spread[i]); }, -1);
  }

  // --- order ---

  function rankedShare(one, state, models) {
    if (state.model) { return one.shares[place(state.model)]; }
    var known = models.map(function (i) { return one.shares[i]; }).filter(function (share) { return share !== null; });
    return known.length ? known.reduce(function (a, b) { return a + b; }, 0) / known.length : null;
  }

  function spread(one, models) {
    var known = models.map(function (i) { return one.shares[i]; }).filter(function (share) { return share !== null; });
    return known.length ? Math.max.apply(null, known) - Math.min.apply(null, known) : null;
  }

  function sorted(found, state, models) {
    var sign = state.sort === 'worst' ? 1 : -1;
    function value(one) {
      if (state.sort === 'spread') { return spread(one, models); }
      return state.sort === 'judges' ? judgeSpread(one, state, models) : rankedShare(one, state, models);
    }
    if (state.sort === 'id') { return found.sort(function (a, b) { return a.id < b.id ? -1 : a.id > b.id ? 1 : 0; }); }
    if (['worst', 'best', 'spread', 'judges'].indexOf(state.sort) < 0) { return found; }
    return found.sort(function (a, b) {
      var x = value(a);
      var y = value(b);
      if (x === null || y === null) { return (x === null) - (y === null) || a.at - b.at; }
      return Math.abs(x - y) < 1e-12 ? a.at - b.at : sign * (x - y);
    });
  }

  function search(state) {
    var models = counted(state);
    var found = cases.filter(function (one) {
      return caseMeets(one, state, models) && some(models, function (i) { return completionMeets(one, i, state); });
    });
    return sorted(found, state, models);
  }

  // --- page ---

  function add(parent, tag, text, css) {
    var made = document.createElement(tag);
    if (css) { made.className = css; }
    made.textContent = text;
    parent.appendChild(made);
    return made;
  }

  function addExcerpt(cell, text, sought) {
    var box = add(cell, 'div', '', 'excerpt');
    box.dir = 'auto';
    var at = sought ? text.toLowerCase().indexOf(sought.toLowerCase()) : -1;
    if (at < 0) { box.textContent = text; return; }
    box.appendChild(document.createTextNode(text.slice(0, at)));
    add(box, 'mark', text.slice(at, at + sought.length));
    box.appendChild(document.createTextNode(text.slice(at + sought.length)));
  }

  function around(one, sought) {
    var at = sought ? one.text.toLowerCase().indexOf(sought.toLowerCase()) : -1;
    if (at < 0) { return one.excerpt; }
    var start = Math.max(0, at - 80);
    return (start ? '... ' : '') + one.text.slice(start, start + 240) + (start + 240 < one.text.length ? ' ...' : '');
  }

  function addCase(body, one, state, models) {
    var row = add(body, 'tr', '', 'case-line');
    var head = add(row, 'th', '');
    head.scope = 'row';
    var link = add(head, 'a', one.name || '(empty id)');
    link.href = one.href;
    link.title = one.name;
    if (table.hasAttribute('data-groups')) { add(row, 'td', one.group, 'group'); }
    if (table.hasAttribute('data-key')) { add(row, 'td', one.correct.join(', '), 'key'); }
    var scores = models.map(function (i) { return one.scores[i]; }).filter(function (score) { return score !== null; });
    var known = models.filter(function (i) { return one.shares[i] !== null; });
    var right = known.filter(function (i) { return isRight(one, i); }).length;
    var mean = scores.length ? (scores.reduce(function (a, b) { return a + b; }, 0) / scores.length).toFixed(2) : '\u2013';
    add(row, 'td', info.graded ? mean : right + ' of ' + known.length, 'number');
    one.marks.forEach(function (mark, i) {
      var cell = add(row, 'td', '', 'mark-cell' + (info.baselines[i] ? ' baseline' : ''));
      add(cell, 'span', mark[0], 'o ' + mark[1]).title = info.models[i] + ': ' + mark[2];
    });
    add(row, 'td', '', 'rest');
    var line = add(body, 'tr', '', 'excerpt-line');
    var cell = add(line, 'td', '');
    cell.colSpan = row.cells.length;
    addExcerpt(cell, around(one, state.text), state.text);
  }

  function fill(state) {
    names.forEach(function (name) {
      var field = form.querySelector('[name="' + name + '"]');
      if (!field) { return; }
      if (field.type === 'checkbox') { field.checked = state[name] === '1'; } else { field.value = state[name]; }
      if (field instanceof HTMLSelectElement && field.selectedIndex < 0) { field.value = field.options[0].value; }
    });
    var folded = names.slice(4);
    var more = form.querySelector('details');
    if (more && some(folded, function (name) { return state[name]; })) { more.open = true; }
  }

  // A value that its field does not offer. `truncated` is an old name of `cut`.
  function notOffered(state) {
    var found = names.filter(function (name) {
      var field = form.querySelector('select[name="' + name + '"]');
      var sought = state[name] === 'truncated' ? 'cut' : state[name];
      return field && sought && !some(Array.from(field.options), function (one) { return one.value === sought; });
    })[0];
    return found ? '\u201c' + state[found].slice(0, 80) + '\u201d is not a choice of \u201c' + form.querySelector('select[name="' + found + '"]').labels[0].textContent.trim() + '\u201d.' : '';
  }

  function problem(state) {
    var unknown = ['model', 'got', 'missed', 'better', 'than'].filter(function (name) { return state[name] && place(state[name]) < 0; });
    if (unknown.length) { return 'No model \u201c' + state[unknown[0]].slice(0, 80) + '\u201d has a column in these files.'; }
    if (ofTwo(state.show) && (!state.got || !state.missed || state.got === state.missed)) {
      return 'Choose two different models to see what changed between them: one in \u201cRight\u201d, the other in \u201cand wrong\u201d.';
    }
    if (state.better === state.than ? state.better : !state.better || !state.than) { return 'Choose two different models in \u201cBetter\u201d and \u201cthan\u201d.'; }
    var bad = ['low', 'high'].filter(function (name) { return state[name] && !isFinite(Number(state[name])); });
    return bad.length ? 'A score is a number such as 0.5.' : notOffered(state);
  }

  function show(state) {
    var why = problem(state);
    var found = why ? [] : search(state);
    var pages = Math.max(1, Math.ceil(found.length / PAGE));
    var page = Math.min(state.page, pages);
    var models = counted(state);
    var body = table.tBodies[0];
    while (body.firstChild) { body.removeChild(body.firstChild); }
    found.slice((page - 1) * PAGE, page * PAGE).forEach(function (one) { addCase(body, one, state, models); });
    var status = document.querySelector('.count');
    status.textContent = '';
    if (why) { add(status, 'strong', 'No case to show. '); status.appendChild(document.createTextNode(why)); } else {
      add(status, 'strong', found.length === cases.length ? cases.length + ' cases' : found.length + ' of ' + cases.length + ' cases');
      if (pages > 1) { status.appendChild(document.createTextNode(', page ' + page + ' of ' + pages)); }
    }
    document.querySelectorAll('.pager').forEach(function (old) { old.parentNode.removeChild(old); });
    if (pages > 1) { addPager(state, page, pages); }
  }

  function addPager(state, page, pages) {
    var pager = document.createElement('nav');
    pager.className = 'pager';
    pager.setAttribute('aria-label', 'Pages');
    [[page - 1, 'Previous page'], [page + 1, 'Next page']].forEach(function (pair) {
      if (pair[0] < 1 || pair[0] > pages) { return; }
      var link = add(pager, 'a', pair[1], 'button');
      var next = Object.assign({}, state, { page: pair[0] });
      link.href = first(next);
    });
    add(pager, 'span', 'Page ' + page + ' of ' + pages);
    table.parentNode.parentNode.insertBefore(pager, table.parentNode.nextSibling);
  }

  // The first file of the list holds all cases; later ones are for browsers without scripts.
  function first(state) {
    var query = addressOf(state).split('?')[1];
    return form.getAttribute('data-case-search') + (query ? '?' + query : '');
  }

  function change() {
    var state = { page: 1 };
    names.forEach(function (name) {
      var field = form.querySelector('[name="' + name + '"]');
      state[name] = !field ? '' : field.type === 'checkbox' ? (field.checked ? '1' : '') : field.value.trim();
    });
    if (state.show === 'all') { state.show = ''; }
    if (state.sort === 'position') { state.sort = ''; }
    try { history.replaceState(null, '', addressOf(state)); } catch (error) { location.search = first(state).split('?')[1] || ''; return; }
    show(state);
  }

  form.hidden = false;
  form.addEventListener('change', change);
  form.querySelector('button').addEventListener('click', change);
  form.addEventListener('keydown', function (event) {
    if (event.key === 'Enter' && event.target instanceof HTMLInputElement) { event.preventDefault(); change(); }
  });
  var state = read();
  fill(state);
  if (location.search) { show(state); }
  window.addEventListener('popstate', function () { var now = read(); fill(now); show(now); });
}());
