/* Small helps on every page. Everything works without them. */
(function () {
  'use strict';

  // A form sends only the fields that are filled in, so that addresses stay short.
  document.querySelectorAll('form[method="get"]').forEach(function (form) {
    form.addEventListener('submit', function () {
      Array.prototype.forEach.call(form.elements, function (field) {
        if (field.name && field.value === '') { field.disabled = true; }
      });
    });
  });
  window.addEventListener('pageshow', function () {
    document.querySelectorAll('form[method="get"] :disabled').forEach(function (field) { field.disabled = false; });
  });
}());

/* Pointing at a model, or going to it by keyboard, shades the models that it cannot be separated from: they share a letter. */
(function () {
  'use strict';

  function shade(body, letters) {
    Array.prototype.forEach.call(body.rows, function (row) {
      var own = row.getAttribute('data-letters') || '';
      row.classList.toggle('tied', letters.split('').some(function (letter) { return own.indexOf(letter) >= 0; }));
    });
  }

  document.querySelectorAll('tr[data-letters]').forEach(function (row) {
    var letters = row.getAttribute('data-letters');
    ['pointerenter', 'focusin'].forEach(function (name) {
      row.addEventListener(name, function () { shade(row.parentNode, letters); });
    });
    ['pointerleave', 'focusout'].forEach(function (name) {
      row.addEventListener(name, function () { shade(row.parentNode, ''); });
    });
  });
}());

/* Tables of the static site are sorted here, and their order is in the address; the server sorts by links. */
(function () {
  'use strict';

  function value(row, column) {
    var cell = row.cells[column];
    var text = cell.hasAttribute('data-sort') ? cell.getAttribute('data-sort') : cell.textContent.trim();
    var number = Number(text);
    return text === '' || text === '\u2013' ? null : isNaN(number) ? text.toLowerCase() : number;
  }

  function sort(body, column, direction) {
    var rows = Array.prototype.slice.call(body.rows);
    rows.sort(function (a, b) {
      var x = value(a, column);
      var y = value(b, column);
      if (x === null || y === null) { return (x === null) - (y === null); }
      return direction * (typeof x === typeof y ? (x < y ? -1 : x > y ? 1 : 0) : typeof x === 'number' ? -1 : 1);
    });
    rows.forEach(function (row) { body.appendChild(row); });
  }

  function arrange(table, cell, order) {
    table.querySelectorAll('th[aria-sort]').forEach(function (other) { other.removeAttribute('aria-sort'); });
    cell.setAttribute('aria-sort', order);
    sort(table.tBodies[0], cell.cellIndex, order === 'ascending' ? 1 : -1);
  }

  document.querySelectorAll('table[data-sortable]').forEach(function (table) {
    var state = new URLSearchParams(location.hash.slice(1));
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (cell) {
      var title = cell.querySelector('.sort-title');
      var first = cell.getAttribute('data-first');
      if (!title || !first) { return; }
      var button = document.createElement('button');
      button.type = 'button';
      button.className = 'plain sort';
      button.textContent = title.textContent.trim();
      title.parentNode.replaceChild(button, title);
      button.addEventListener('click', function () {
        var turned = cell.getAttribute('aria-sort') === 'ascending' ? 'descending' : 'ascending';
        var order = cell.hasAttribute('aria-sort') ? turned : first;
        arrange(table, cell, order);
        var wanted = new URLSearchParams({ table: table.id, sort: cell.getAttribute('data-key'), order: order });
        history.replaceState(null, '', '#' + wanted);
      });
      if (state.get('table') === table.id && state.get('sort') === cell.getAttribute('data-key')) {
        arrange(table, cell, state.get('order') === 'ascending' ? 'ascending' : 'descending');
      }
    });
  });
}());
