/* The pages of raters. Everything works without this script; with it, answers are saved as they are given. */
(function () {
  'use strict';
  var IDLE_MS = 120000, TYPING_MS = 800, TIMEOUT_MS = 20000, LONGEST_WAIT_MS = 60000;
  var byId = function (id) { return document.getElementById(id); };
  var all = function (selector, inside) { return Array.prototype.slice.call((inside || document).querySelectorAll(selector)); };

  /* --- signing in, and the link for another device --- */

  function signIn() {
    var login = byId('login'), token = /^#t=([A-Za-z0-9_-]+)$/.exec(location.hash);
    if (!login || !token) { return; }
    history.replaceState(null, '', location.pathname + location.search);
    login.elements.namedItem('token').value = token[1];
    login.submit();
  }
  signIn();
  window.addEventListener('hashchange', signIn); /* a link that is opened while this page is shown */
  all('[data-select]').forEach(function (field) { field.addEventListener('focus', function () { field.select(); }); });
  all('[data-copy]').forEach(function (button) {
    if (!navigator.clipboard) { return; }
    button.hidden = false;
    button.addEventListener('click', function () {
      navigator.clipboard.writeText(byId(button.dataset.copy).value).then(function () { button.textContent = 'Copied'; });
    });
  });

  var form = byId('rating');
  if (!form) { return; }

  /* --- seconds in which the case was looked at --- */

  var seen = 0, since = document.hidden ? null : performance.now();
  function lap() {
    var now = performance.now();
    if (since !== null) { seen += Math.min(now - since, IDLE_MS); }
    since = document.hidden ? null : now;
  }
  ['pointermove', 'pointerdown', 'keydown', 'wheel', 'touchmove', 'scroll'].forEach(function (name) {
    document.addEventListener(name, function () { if (since === null || performance.now() - since > 1000) { lap(); } }, {capture: true, passive: true});
  });

  /* --- saving --- */

  var status = byId('status'), busy = false, timer = 0, waits = 0, wanted = '', goal = '', leaving = false, isFinal = false, known = state();

  function state() {
    var found = {mark: []};
    new FormData(form).forEach(function (value, name) {
      if (name === 'mark') { found.mark.push(value); } else if (/^(grade|reason|words)-|^comment$/.test(name)) { found[name] = value; }
    });
    found.mark = found.mark.sort().join(' ');
    return found;
  }
  function differing(one, other) {
    return Object.keys(Object.assign({}, one, other)).filter(function (name) { return (one[name] || '') !== (other[name] || ''); });
  }
  function say(text, isProblem) {
    if (status.textContent !== text) { status.textContent = text; }
    status.classList.toggle('problem', Boolean(isProblem));
    status.classList.toggle('pending', differing(state(), known).length > 0);
  }
  function set(name, value) {
    if (name === 'mark') { form.dispatchEvent(new CustomEvent('marks', {detail: value ? value.split(' ') : []})); return; }
    var field = form.elements.namedItem(name);
    if (field instanceof RadioNodeList) {
      all('[name="' + name + '"]', form).forEach(function (radio) { radio.checked = radio.value === value; });
    } else if (field) { field.value = value; }
  }
  function changed(delay) {
    clearTimeout(timer);
    status.classList.toggle('pending', differing(state(), known).length > 0);
    timer = setTimeout(save, waits ? Math.max(delay, 500) : delay);
  }
  function failed(text) {
    waits = Math.min(waits ? waits * 2 : 1000, LONGEST_WAIT_MS);
    say(text, true);
    clearTimeout(timer);
    timer = setTimeout(save, waits);
  }

  function save(action) {
    wanted = action || wanted;
    if (busy || isFinal || !wanted && !differing(state(), known).length) { return; }
    clearTimeout(timer);
    busy = true;
    lap();
    var sent = state(), seconds = seen / 1000, asked = wanted, data = new URLSearchParams(new FormData(form));
    var controller = new AbortController(), timeout = setTimeout(function () { controller.abort(); }, TIMEOUT_MS);
    data.set('seconds', seconds.toFixed(1));
    data.set('action', asked || 'save');
    fetch(form.getAttribute('action'), { /* form.action is the buttons of this name */
      method: 'POST', body: data, headers: {Accept: 'application/json'}, credentials: 'same-origin',
      redirect: 'error', signal: controller.signal, keepalive: document.hidden && data.toString().length < 60000
    }).then(function (response) {
      return response.json().then(function (answer) { answered(response.status, answer, sent, seconds, asked); });
    }).catch(function () {
      busy = false;
      failed(navigator.onLine === false ? 'Not saved yet: no connection. Trying again.' : 'Not saved yet: the server does not answer. Trying again.');
    }).finally(function () { clearTimeout(timeout); });
  }

  function answered(code, answer, sent, seconds, asked) {
    busy = false;
    if (code === 401 || code === 403 || code >= 500 || code === 429) {
      failed(code === 401
        ? 'Not saved yet: you are signed out. Everything you typed stays on this page. Open a new personal link in another tab of this browser, then come back here.'
        : 'Not saved yet: ' + (answer.error || 'the server has a problem.') + ' Trying again.');
      return;
    }
    wanted = wanted === asked ? '' : wanted;
    if (code >= 400) { /* closed, or a wrong value: trying again does not help */
      isFinal = Boolean(answer.is_final);
      say('Not saved: ' + answer.error, true);
      return;
    }
    waits = 0;
    seen = Math.max(0, seen - seconds * 1000);
    form.elements.namedItem('revision').value = answer.revision;
    if (answer.values) { adopt(answer.values, sent); } else { known = sent; }
    byId('progress').value = answer.n_complete;
    byId('progress-text').textContent = answer.progress;
    say(answer.values
      ? 'This case was changed in another window or on another device. The newest answers are shown; what you changed here is kept.'
      : 'Saved ' + new Date().toLocaleTimeString([], {hour: '2-digit', minute: '2-digit'}), Boolean(answer.values));
    all('.question').forEach(function (one) {
      if (one.classList.contains('missing') && answer.unanswered.indexOf(one.id) < 0) { showMissing(one, false); }
    });
    var to = goal || (asked && !answer.values && answer.next);
    if (to && !differing(state(), known).length) {
      leaving = true;
      location.assign(to);
      if (to.split('#')[0] === location.pathname) { location.reload(); }
    } else if (asked === 'next' && answer.unanswered.length) {
      answer.unanswered.forEach(function (id) { showMissing(byId(id), true); });
      say(answer.message, true);
      byId(answer.unanswered[0]).querySelector('input').focus();
    } else {
      wanted = wanted || (to ? asked : '');
      changed(0);
    }
  }

  function showMissing(question, isMissing) {
    question.classList.toggle('missing', isMissing);
    question.querySelector('.problem').hidden = !isMissing;
  }

  function adopt(values, sent) { /* the joined answers of all windows; what changed here since stays, and is sent next */
    var here = state(), newest = Object.assign({}, values, {mark: values.mark.slice().sort().join(' ')});
    differing(here, newest).forEach(function (name) {
      if ((here[name] || '') === (sent[name] || '')) { set(name, newest[name] || ''); }
    });
    known = newest;
  }

  form.addEventListener('submit', function (event) {
    event.preventDefault();
    save((event.submitter && event.submitter.value) || 'save');
  });
  form.addEventListener('change', function () { changed(0); });
  form.addEventListener('input', function (event) { if (event.target.type !== 'radio') { changed(TYPING_MS); } });
  form.addEventListener('keydown', function (event) {
    var field = event.target, group = field.closest('fieldset');
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      save('next');
    } else if (event.key === 'Enter' && field.tagName === 'INPUT') {
      event.preventDefault();
    } else if (group && field.type === 'radio' && /^[0-9]$/.test(event.key) && !event.ctrlKey && !event.altKey && !event.metaKey) {
      var radio = group.querySelector('[data-key="' + event.key + '"]');
      if (radio) {
        event.preventDefault();
        radio.focus();
        if (!radio.checked) { radio.click(); }
      }
    }
  });
  document.addEventListener('click', function (event) { /* a link waits until all is saved; the second click does not */
    var link = event.target.closest('a[href]');
    if (!link || link.hash || link.href === goal || event.ctrlKey || event.metaKey || event.shiftKey) { return; }
    if (busy || differing(state(), known).length) {
      event.preventDefault();
      goal = link.href;
      save();
    }
  });
  document.addEventListener('visibilitychange', function () { lap(); if (document.hidden || waits) { save(); } });
  addEventListener('online', function () { save(); });
  addEventListener('beforeunload', function (event) {
    if (!leaving && !isFinal && (busy || differing(state(), known).length)) { event.preventDefault(); event.returnValue = ''; }
  });
  if (byId('message')) { byId('message').focus(); }
}());
