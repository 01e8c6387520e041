/* The HTML file of a rater: shows one case at a time, and saves ratings as a file. `startTexts` is the script of texts. */
addEventListener('DOMContentLoaded', function () {
  'use strict';
  var IDLE_MS = 120000;
  var byId = function (id) { return document.getElementById(id); };
  var all = function (selector, inside) { return Array.from((inside || document).querySelectorAll(selector)); };
  var study = JSON.parse(byId('study').textContent), main = byId('content'), jump = byId('jump');
  var instructions = Array.from(main.children), templates = all('template[data-case]');
  var current = -1, unsaved = false, seen = 0, since = null;
  study.cases.forEach(function (one) { one.seconds = 0; });

  /* --- answers --- */

  function isComplete(one) { return !unanswered(one).length; }
  function unanswered(one) { /* numbers of the questions without an answer; harm that is not there has no likelihood */
    var noHarm = one.fields['grade-' + (one.questions.indexOf('harm_severity') + 1)] === '0';
    return one.questions.map(function (name, at) { return at + 1; }).filter(function (number) {
      var grade = one.fields['grade-' + number], reason = one.fields['reason-' + number], words = one.fields['words-' + number];
      if (one.questions[number - 1] === 'harm_likelihood' && noHarm) { return false; }
      return !grade || grade === 'none' && (!reason || reason === 'other' && !(words || '').trim());
    });
  }
  function keep() { /* what the form holds */
    var form = byId('rating'), one = study.cases[current];
    if (!form || !one) { return; }
    var fields = {mark: []};
    new FormData(form).forEach(function (value, name) {
      if (name === 'mark') { fields.mark.push(value); } else if (/^(grade|reason|words)-|^comment$/.test(name)) { fields[name] = value; }
    });
    one.fields = fields;
    lap();
    one.seconds += seen / 1000;
    seen = 0;
  }
  function fill(form, fields) {
    all('input[type=radio]', form).forEach(function (radio) { radio.checked = fields[radio.name] === radio.value; });
    all('select, textarea, input[type=text]', form).forEach(function (field) { if (typeof fields[field.name] === 'string') { field.value = fields[field.name]; } });
    (fields.mark || []).forEach(function (value) {
      var item = document.createElement('li'), input = document.createElement('input');
      input.type = 'hidden';
      input.name = 'mark';
      input.value = value;
      item.append(input);
      byId('marks').append(item);
    });
  }
  function tell() {
    var done = study.cases.filter(isComplete).length;
    byId('progress').value = done;
    byId('progress-text').textContent = done + ' of ' + study.cases.length + ' rated' + (unsaved ? ', not saved yet' : '');
    all('option', jump).forEach(function (option, at) {
      if (at) { option.textContent = 'Case ' + option.value + (isComplete(study.cases[at - 1]) ? ' ✓' : ''); }
    });
    byId('save').classList.toggle('main', unsaved);
  }
  function say(text, isProblem, isAtTop) { /* beside the buttons of the case, or at the top */
    var place = !isAtTop && byId('status') || byId('file-status');
    all('#status, #file-status').forEach(function (one) {
      one.textContent = one === place ? text : '';
      one.classList.toggle('problem', Boolean(isProblem));
    });
  }
  function showMissing(numbers) {
    all('.question').forEach(function (one) {
      var isMissing = numbers.indexOf(Number(one.id.replace('question-', ''))) >= 0;
      one.classList.toggle('missing', isMissing);
      all('.problem', one).forEach(function (text) { text.hidden = !isMissing; });
    });
  }
  function changed() {
    keep();
    unsaved = true;
    say('');
    tell();
    if (current >= 0 && document.querySelector('.question.missing')) { showMissing(unanswered(study.cases[current])); }
  }

  /* --- one case at a time --- */

  function show(at) {
    keep();
    current = -1; /* a field that is removed while it has the focus sends `change`, before the new form is filled */
    var one = study.cases[at];
    jump.value = one ? String(one.number) : '';
    byId('study-title').hidden = !one;
    byId('place').textContent = one ? 'Case ' + one.number + ' of ' + study.last : byId('study-title').textContent;
    if (one) {
      main.replaceChildren(document.importNode(templates[at].content, true));
      var form = byId('rating');
      fill(form, one.fields);
      startTexts();
      say('');
      all('[name=action][value=pause]', form).forEach(function (button) { button.textContent = 'Save ratings'; });
    } else {
      main.replaceChildren.apply(main, instructions);
      byId('begin').textContent = study.cases.every(isComplete) ? 'Look at the cases again' : study.cases.some(isComplete) ? 'Go on' : 'Begin';
    }
    current = at;
    scrollTo(0, 0);
    byId('place').focus({preventScroll: true});
    tell();
  }
  function nextOpen() {
    for (var step = 1; step <= study.cases.length; step += 1) {
      var at = (current + step + study.cases.length) % study.cases.length;
      if (!isComplete(study.cases[at])) { return at; }
    }
    return -1;
  }
  function next() {
    var at = nextOpen();
    show(at);
    if (at < 0) { say('All cases are rated. Save the ratings, and return the file.'); }
  }
  function act(action) {
    keep();
    var left = unanswered(study.cases[current]);
    showMissing(action === 'next' ? left : []);
    if (action === 'pause') { save(false); }
    if (action === 'back') { show(Math.max(0, current - 1)); }
    if (action === 'later') { show((current + 1) % study.cases.length); }
    if (action === 'next' && !left.length) { next(); }
    if (action === 'next' && left.length) {
      say('Answer the marked questions, choose “Cannot judge” with a reason, or leave the case for later.');
      byId('question-' + left[0]).querySelector('input').focus();
    }
  }

  /* --- the file with the ratings --- */

  function save(isAtTop) {
    keep();
    var ratings = study.cases.map(function (one) {
      return {number: one.number, digest: one.digest, revision: one.revision, seconds: Math.round(one.seconds * 10) / 10, fields: one.fields};
    });
    var content = {format: study.format, study: study.study, plan: study.plan, rater: study.rater, ratings: ratings};
    var link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([JSON.stringify(content, null, 1)], {type: 'application/json'}));
    link.download = study.file;
    link.click();
    setTimeout(function () { URL.revokeObjectURL(link.href); }, 60000);
    unsaved = false;
    tell();
    say('Saved to your downloads as ' + study.file + '.', false, isAtTop);
  }
  function read(text) {
    var content;
    try { content = JSON.parse(text); } catch (error) { return say('This is not a file with saved ratings.', true, true); }
    if (!content || content.format !== study.format || content.study !== study.study || content.plan !== study.plan || content.rater !== study.rater || !Array.isArray(content.ratings)) {
      return say('These ratings belong to another study or another rater.', true, true);
    }
    var known = new Map(study.cases.map(function (one) { return [one.number, one]; }));
    content.ratings.forEach(function (rating) {
      var one = known.get(rating && rating.number);
      if (one && one.digest === rating.digest && rating.fields && typeof rating.fields === 'object') {
        one.fields = Object.assign({}, rating.fields, {mark: [].concat(rating.fields.mark || []).filter(function (mark) { return /^\d+-\d+-(error|omission|invented)-[01]$/.test(mark); })});
        one.seconds = Number(rating.seconds) || 0;
      }
    });
    current = -1;
    unsaved = false;
    show(-1);
    say('The saved ratings are open.');
  }

  /* --- seconds in which a case was looked at --- */

  function lap() {
    var now = performance.now();
    if (since !== null) { seen += Math.min(now - since, IDLE_MS); }
    since = document.hidden || current < 0 ? null : now;
  }
  ['pointermove', 'pointerdown', 'keydown', 'wheel', 'touchmove', 'scroll'].forEach(function (name) {
    document.addEventListener(name, function () { if (since === null || performance.now() - since > 1000) { lap(); } }, {capture: true, passive: true});
  });
  document.addEventListener('visibilitychange', lap);

  /* --- events --- */

  document.addEventListener('submit', function (event) {
    event.preventDefault();
    if (event.target.id === 'rating') { act(event.submitter ? event.submitter.value : 'save'); }
  });
  ['change', 'input'].forEach(function (name) {
    document.addEventListener(name, function (event) { if (event.target.closest('#rating')) { changed(); } });
  });
  document.addEventListener('keydown', function (event) {
    var field = event.target, group = field.closest && field.closest('fieldset');
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && current >= 0) {
      event.preventDefault();
      act('next');
    } else if (event.key === 'Enter' && field.tagName === 'INPUT' && field.closest('#rating')) {
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
  addEventListener('beforeunload', function (event) { if (unsaved) { event.preventDefault(); event.returnValue = ''; } });
  jump.addEventListener('change', function () {
    show(study.cases.findIndex(function (one) { return String(one.number) === jump.value; }));
  });
  byId('begin').addEventListener('click', function () { show(Math.max(nextOpen(), 0)); });
  byId('save').addEventListener('click', function () { save(true); });
  byId('open').addEventListener('click', function () {
    if (!unsaved || confirm('Ratings that you have not saved would be lost. Open another file?')) { byId('saved').click(); }
  });
  byId('saved').addEventListener('change', function (event) {
    var file = event.target.files[0];
    if (file) { file.text().then(read); }
    event.target.value = '';
  });
  all('.file-actions, #begin').forEach(function (one) { one.hidden = false; });
  show(-1);
});
